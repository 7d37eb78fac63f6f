// Replays a race in the browser from its recorded step times. The body of a function with `element`.
const reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;

// A new race may arrive in the elements of the one before it: that one's clock and listeners end here.
let before = new AbortController();
let mounted = {};

function mount(root) {
  before.abort();
  before = new AbortController();
  const signal = before.signal;
  root.querySelectorAll(".lane-text").forEach((text) => { text.textContent = ""; });
  const lanes = JSON.parse(root.dataset.race).map((steps, index) => {
    const box = root.querySelectorAll(".lane")[index];
    let at = 0, tokens = 0;
    const ends = steps.map((step) => (at += step[0]));
    const counts = steps.map((step) => (tokens += step[1].length));
    return {
      steps, ends, counts, total: at, tokens, shown: 0,
      box, text: box.querySelector(".lane-text"), bar: box.querySelector(".lane-bar span"),
      state: box.querySelector(".lane-state"),
    };
  });
  const total = Math.max(1, ...lanes.map((lane) => lane.total));
  const play = root.querySelector(".race-play"), restart = root.querySelector(".race-restart");
  const slider = root.querySelector(".race-at"), clock = root.querySelector(".race-clock");
  const speed = root.querySelector(".race-speed select");
  let now = 0, frame = 0, last = 0;

  function show(lane) {
    let count = 0;
    while (count < lane.ends.length && lane.ends[count] <= now + 1e-6) count++;
    if (count < lane.shown) { lane.text.textContent = ""; lane.shown = 0; }
    if (count > lane.shown) {
      const piece = document.createDocumentFragment();
      for (const [, tokens] of lane.steps.slice(lane.shown, count)) {
        for (const [text, css] of tokens) {
          const span = document.createElement("span");
          span.className = "rtok " + css;
          span.textContent = text;
          piece.appendChild(span);
        }
      }
      lane.text.appendChild(piece);
      lane.shown = count;
      lane.text.scrollTop = lane.text.scrollHeight;
    }
    const done = count ? lane.counts[count - 1] : 0;
    lane.bar.style.width = (100 * done) / Math.max(1, lane.tokens) + "%";
    const over = count === lane.ends.length;
    lane.box.classList.toggle("over", over);
    const passes = Math.max(0, count - 1);
    lane.state.textContent =
      `${done} token${done === 1 ? "" : "s"} · ${passes} pass${passes === 1 ? "" : "es"}` +
      (over ? ` · done at ${(lane.total / 1000).toFixed(2)} s` : "");
  }

  function render() {
    lanes.forEach(show);
    clock.textContent = (now / 1000).toFixed(2) + " s";
    slider.value = String(Math.round((1000 * now) / total));
  }

  function running(on) {
    play.textContent = on ? "❚❚" : "▶";
    play.setAttribute("aria-label", on ? "pause" : "play");
    root.dataset.playing = on ? "1" : "0";
  }

  function stop() {
    cancelAnimationFrame(frame);
    frame = 0;
    running(false);
  }

  function tick(time) {
    if (signal.aborted || !root.isConnected) return;
    now = Math.min(total, now + (time - last) * Number(speed.value));
    last = time;
    render();
    if (now >= total) stop();
    else frame = requestAnimationFrame(tick);
  }

  function start() {
    if (now >= total) now = 0;
    running(true);
    last = performance.now();
    frame = requestAnimationFrame(tick);
  }

  play.addEventListener("click", () => (frame ? stop() : start()), { signal });
  restart.addEventListener("click", () => { stop(); now = 0; render(); start(); }, { signal });
  slider.addEventListener("input", () => { stop(); now = (Number(slider.value) / 1000) * total; render(); }, { signal });
  if (root.dataset.autoplay === "1" && !reduced) { render(); start(); }
  else { now = total; render(); running(false); }
}

function scan() {
  const root = element.querySelector(".race");
  if (root && (root !== mounted.root || root.dataset.race !== mounted.race)) {
    mounted = { root, race: root.dataset.race };
    mount(root);
  }
}
new MutationObserver(scan).observe(element, { childList: true, subtree: true });
scan();
