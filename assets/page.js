// The browser's half of the page: figures drawn in place, clicks and keys sent to Python, keyboard
// steps, theme switch. No framework, no network: Plotly comes from this server.
(function () {
  "use strict";
  if (window.eaglePage) return;

  const TWINS = window.eagleDarkTwins || {};
  const COLOUR_KEY = /color$/i;
  const COARSE = window.matchMedia("(pointer: coarse)").matches;
  const CONFIG = {
    displaylogo: false,
    responsive: false,
    displayModeBar: COARSE ? false : "hover",
    showSendToCloud: false, // no button that sends a figure away
    plotlyServerURL: "",
    // Plotly's own reset goes back to the first figure that was drawn, or turns a tree upside down; and two
    // quick clicks on two nodes are no wish to reset. Ours shows the whole of the figure that is there.
    doubleClick: false,
    modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "resetScale2d"],
    toImageButtonOptions: { format: "svg", filename: "eagle-figure" },
  };
  const whole = new WeakMap(); // plot -> the ranges that show all of its figure

  function showWhole(plot) {
    const ranges = whole.get(plot);
    if (ranges) window.Plotly.relayout(plot, ranges);
  }
  function rangesOf(layout) {
    const ranges = {};
    ["xaxis", "yaxis"].forEach((name) => {
      if (layout[name] && layout[name].range) ranges[name + ".range"] = layout[name].range.slice();
    });
    return ranges;
  }
  function config(Plotly, layout) {
    const zooms = ["xaxis", "yaxis"].some((name) => layout[name] && layout[name].range && !layout[name].fixedrange);
    const home = { name: "whole", title: "Show all", icon: Plotly.Icons.home, click: showWhole };
    return Object.assign({}, CONFIG, { modeBarButtonsToAdd: zooms ? [home] : [] });
  }
  const NARROW = window.matchMedia("(max-width: 640px)"); // a phone, where the tree grows downwards
  const figures = new Set();

  const isDark = () =>
    document.body.classList.contains("dark") || document.documentElement.classList.contains("dark");

  const plotly = (() => {
    let promise = null;
    return () => {
      promise = promise || new Promise((resolve, reject) => {
        const started = Date.now();
        (function wait() {
          if (window.Plotly) resolve(window.Plotly);
          else if (Date.now() - started > 60000) reject(new Error("plotly.min.js did not load"));
          else setTimeout(wait, 20);
        })();
      });
      return promise;
    };
  })();

  // Replaces light colours by their dark twins under keys that hold colours; text is never touched.
  function recolour(node, key) {
    if (Array.isArray(node)) return node.map((item) => recolour(item, key));
    if (node && typeof node === "object") {
      const out = {};
      for (const name of Object.keys(node)) {
        out[name] = name === "customdata" || name === "text" ? node[name] : recolour(node[name], name);
      }
      return out;
    }
    if (typeof node === "string" && (COLOUR_KEY.test(key) || key === "colorscale")) return TWINS[node] || node;
    return node;
  }

  // Figures whose data changed are drawn one by one, the most telling first, with a paint in between.
  const waiting = new Map(); // draw -> order
  let flushing = false;
  async function flush() {
    if (flushing) return;
    flushing = true;
    try {
      while (waiting.size) {
        const [draw] = [...waiting].reduce((a, b) => (b[1] < a[1] ? b : a));
        waiting.delete(draw);
        await draw();
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    } finally {
      flushing = false;
    }
  }
  function schedule(draw, order) {
    waiting.set(draw, order);
    setTimeout(flush, 0);
  }

  // A press and its release at one place, wherever plotly has put what takes the pointer in between.
  function onTap(plot, tapped) {
    let from = null;
    plot.addEventListener("pointerdown", (event) => {
      from = event.isPrimary && event.button === 0 && !event.target.closest(".modebar")
        ? [event.clientX, event.clientY] : null;
    }, true);
    document.addEventListener("pointercancel", () => { from = null; }, true); // a finger that scrolls
    document.addEventListener("pointerup", (event) => {
      if (from && Math.hypot(event.clientX - from[0], event.clientY - from[1]) < 6) tapped(...from);
      from = null;
    }, true);
  }

  // The node of the tree at a place on the screen: that of the nearest of the unseen marks along its box.
  function nodeAt(plot, x, y) {
    const marks = plot._fullData && plot._fullData.find((t) => t.mode === "markers" && t.customdata);
    if (!marks) return null;
    const { xaxis, yaxis, _size } = plot._fullLayout;
    const box = plot.getBoundingClientRect();
    let nearest = null;
    let least = Infinity;
    marks.customdata.forEach((node, i) => {
      const dx = Math.abs(box.left + _size.l + xaxis.d2p(marks.x[i]) - x);
      const dy = Math.abs(box.top + _size.t + yaxis.d2p(marks.y[i]) - y);
      if (dx > 26 || dy > 30 || Math.hypot(dx, dy) >= least) return;
      nearest = node;
      least = Math.hypot(dx, dy);
    });
    return nearest;
  }

  function mountFigure(element, props, trigger, watch, order) {
    const scroller = element.querySelector(".fig-scroll");
    const plot = element.querySelector(".fig");
    const alt = element.querySelector(".fig-alt");
    let shown = null; // the value on screen with its width and theme
    let shownBody = null; // the same without what can be changed in place
    let listening = false;

    function listen() {
      if (listening) return;
      listening = true;
      const payload = (event) => {
        const point = event.points && event.points.find((p) => p.customdata !== undefined && p.customdata !== null);
        return point ? point.customdata : null;
      };
      const choose = (data) => {
        if (data === null) return;
        stopPlaying();
        trigger("click", { point: data });
      };
      const isTree = () => plot.layout && plot.layout.meta && plot.layout.meta.down !== undefined;
      plot.on("plotly_click", (event) => { if (!isTree()) choose(payload(event)); });
      // Plotly loses a click that falls into a redraw, as clicks on a tree soon after another do.
      onTap(plot, (x, y) => { if (isTree()) choose(nodeAt(plot, x, y)); });
      plot.on("plotly_doubleclick", () => setTimeout(() => showWhole(plot), 0)); // once the click is dealt with
      plot.on("plotly_hover", (event) => announce(payload(event)));
      plot.on("plotly_unhover", () => announce(null));
    }

    function announce(data) {
      document.dispatchEvent(new CustomEvent("eagle:hover", { detail: { from: element, data } }));
    }

    function keepInSight(layout, width) {
      const focus = layout.meta && layout.meta.focus; // [left, right] as shares of the figure's width
      if (!focus || scroller.clientWidth >= width) return;
      const left = focus[0] * width, right = focus[1] * width;
      if (left < scroller.scrollLeft) scroller.scrollLeft = Math.max(0, left - 24);
      else if (right > scroller.scrollLeft + scroller.clientWidth) {
        scroller.scrollLeft = right - scroller.clientWidth + 24;
      }
    }

    async function draw() {
      const room = scroller.clientWidth;
      if (!room || !props.value) return; // hidden: the observer draws it when it is shown
      const key = [room, isDark(), NARROW.matches, props.value].join("|");
      if (key === shown) return;
      try {
        const Plotly = await plotly();
        let figure = JSON.parse(props.value);
        if (isDark()) figure = recolour(figure, "");
        const layout = figure.layout;
        if (askOtherWay(layout)) return; // its answer is drawn instead
        const width = Math.max(room, (layout.meta && layout.meta.min_width) || 0);
        layout.width = width;
        layout.autosize = false;
        if (layout.meta && layout.meta.pixels && layout.xaxis) layout.xaxis.range = [0, width];
        if (COARSE) {
          layout.dragmode = false; // a finger scrolls the page
          // A tap opens the node's panel; a label over the tree would only stand in the way.
          if (layout.meta && layout.meta.down) figure.data.forEach((t) => { if (t.customdata) t.hoverinfo = "none"; });
        }
        plot.style.height = layout.height + "px";
        plot.style.width = width + "px";
        alt.textContent = (layout.meta && layout.meta.alt) || "";
        const body = JSON.stringify([figure.data, Object.assign({}, layout, { shapes: null, meta: null })]);
        if (body === shownBody) await Plotly.relayout(plot, { shapes: layout.shapes || [] });
        else await Plotly.react(plot, figure.data, layout, config(Plotly, layout));
        whole.set(plot, rangesOf(layout));
        listen();
        keepInSight(layout, width);
        shown = key;
        shownBody = body;
        element.dataset.drawn = String(Number(element.dataset.drawn || 0) + 1);
      } catch (error) {
        alt.textContent = "This figure could not be drawn: " + error.message;
        alt.classList.add("fig-error");
      }
    }

    const press = makeSender((data) => trigger("press", data), watch, false);
    const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "Enter"];
    plot.addEventListener("keydown", (event) => {
      if (plot.tabIndex !== 0 || !KEYS.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      press({ key: event.key });
    });
    plot.addEventListener("pointerdown", () => { if (plot.tabIndex === 0) plot.focus({ preventScroll: true }); });

    const request = () => schedule(draw, order);
    new ResizeObserver(request).observe(scroller);
    figures.add(request);
    watch("value", request);
    request();
  }

  // The tree grows to the right, or downwards on a narrow page. Python learns of the page's width when a
  // figure comes that is drawn for the other kind; should no answer come, that figure is shown as it is.
  let tellScreen = null;
  let asked = 0;
  let tries = 0;
  function askOtherWay(layout) {
    const down = layout.meta && layout.meta.down;
    if (down === undefined || !tellScreen) return false;
    if (down === NARROW.matches) tries = 0;
    if (down === NARROW.matches || tries > 2) return false;
    if (Date.now() - asked > 1500) {
      asked = Date.now();
      tries += 1;
      tellScreen({ act: "screen", narrow: NARROW.matches });
      setTimeout(redrawAll, 1600);
    }
    return tries <= 2;
  }
  function watchScreen(trigger) {
    tellScreen = (data) => trigger("act", data);
    NARROW.addEventListener("change", () => { tries = 0; redrawAll(); });
  }

  const redrawAll = () => figures.forEach((request) => request());
  const themeWatcher = new MutationObserver(redrawAll);
  function watchTheme() {
    themeWatcher.observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
    themeWatcher.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }
  if (document.body) watchTheme();
  else document.addEventListener("DOMContentLoaded", watchTheme);

  // Sends one event at a time: the next one goes when the component has shown the answer to the last.
  // So quick presses neither get lost nor overtake each other on the server. ``latest`` keeps only the
  // newest waiting event (a dragged slider); otherwise up to eight wait in a row (keys).
  function makeSender(send, watch, latest) {
    let waiting = [];
    let busy = false;
    let timer = 0;
    function next() {
      if (busy || !waiting.length) return;
      busy = true;
      timer = setTimeout(done, watch ? 700 : 0); // an event that changes nothing gets no answer
      send(waiting.shift());
    }
    function done() {
      clearTimeout(timer);
      busy = false;
      next();
    }
    if (watch) watch("value", done);
    return (data) => {
      if (latest) waiting = [data];
      else if (waiting.length < 8) waiting.push(data);
      next();
    };
  }

  // Elements with data-act are events: a click, or the movement of a slider, sends the element's data.
  function mountActions(element, trigger, watch) {
    const send = makeSender((data) => trigger("act", data), watch, true);
    let wanted = null; // the step asked for last, until the page shows it
    if (watch) watch("value", () => { if (!element.querySelector("input[data-act]:active")) wanted = null; });
    function act(source) {
      const data = Object.assign({}, source.dataset);
      const slider = element.querySelector("input[data-act=step]");
      if (source === slider) wanted = Number(slider.value);
      if (data.act === "by" && slider) {
        const from = wanted === null ? Number(slider.getAttribute("value")) : wanted;
        wanted = Math.min(Math.max(from + Number(data.by), 0), Number(slider.max));
      }
      send(slider && wanted !== null ? { act: "step", step: wanted } : data);
    }
    element.addEventListener("click", (event) => {
      const source = event.target.closest("[data-act]");
      if (source && element.contains(source) && source.tagName !== "INPUT" && !source.disabled) act(source);
    });
    element.addEventListener("input", (event) => {
      if (event.target.matches("input[data-act]")) act(event.target);
    });
  }

  // Hover links: a node in the tree and its token in the answer, both ways.
  document.addEventListener("eagle:hover", (event) => {
    document.querySelectorAll(".answer .tok.linked").forEach((token) => token.classList.remove("linked"));
    const { from, data } = event.detail;
    if (data === null || !from.closest("#tree")) return;
    document.querySelectorAll(".answer .tok.here").forEach((token) => {
      token.classList.toggle("linked", token.dataset.node === String(data));
    });
  });
  function hoverNode(node) {
    const plot = document.querySelector("#tree .fig");
    if (!plot || !plot._fullData) return;
    const curve = plot._fullData.findIndex((trace) => trace.mode === "markers" && trace.customdata);
    const point = curve < 0 || node === null ? -1 : plot._fullData[curve].customdata.indexOf(node);
    if (point >= 0) window.Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: point + 1 }]);
    else window.Plotly.Fx.unhover(plot);
  }
  document.addEventListener("mouseover", (event) => {
    const token = event.target.closest && event.target.closest(".answer .tok.here");
    if (token) hoverNode(Number(token.dataset.node));
  });
  document.addEventListener("mouseout", (event) => {
    if (event.target.closest && event.target.closest(".answer .tok.here")) hoverNode(null);
  });

  // Left and right change the step, wherever the focus is, unless it is in something that uses them.
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const id = { ArrowLeft: "step-previous", ArrowRight: "step-next" }[event.key];
    if (!id) return;
    const at = event.target;
    if (at.closest && at.closest("input, textarea, select, [contenteditable], [role=tab], [role=slider], .fig[tabindex='0']")) return;
    const button = document.getElementById(id);
    if (!button || button.disabled || button.offsetParent === null) return;
    event.preventDefault();
    button.click();
  });

  // Play: presses "next" again and again, at the pace that was chosen, never unasked. It stops at the end,
  // at anything the visitor does to move, and when the page is not seen. What it is doing stands at the
  // root element, so that buttons drawn anew look right at once.
  const PACES = [3000, 1500, 700];
  const NEXT = { step: "#step-next", story: ".story [data-by='1']" };
  const root = document.documentElement;
  let playTimer = 0;
  root.dataset.pace = "1";
  // Rules that start at the root element can not stand in the style sheet: gradio puts that inside its container.
  const rules = PACES.map((_, i) => `[data-pace="${i}"] .pace span:nth-child(${i + 1}) { display: inline !important; }`);
  Object.keys(NEXT).forEach((kind) => {
    const button = `[data-playing=${kind}] [data-play=${kind}]`;
    rules.push(`${button} .when-playing { display: inline !important; } ${button} .when-still { display: none; }`);
  });
  document.head.append(Object.assign(document.createElement("style"), { textContent: rules.join("\n") }));

  function stopPlaying() {
    clearTimeout(playTimer);
    delete root.dataset.playing;
  }
  function placeNow() {
    return [".nav-step", ".story-at"].map((one) => (document.querySelector(one) || {}).textContent).join("|");
  }
  function pressNext() {
    const button = document.querySelector(NEXT[root.dataset.playing]);
    if (!button || button.disabled || button.offsetParent === null || document.hidden) return stopPlaying();
    const before = placeNow();
    button.click();
    waitForPlace(before, Date.now());
  }
  function waitForPlace(before, since) {
    if (!root.dataset.playing) return;
    if (placeNow() === before) {
      if (Date.now() - since > 10000) return stopPlaying();
      playTimer = setTimeout(() => waitForPlace(before, since), 50);
      return;
    }
    const button = document.querySelector(NEXT[root.dataset.playing]);
    const told = root.dataset.playing === "story" && !document.querySelector(".story-at");
    if (told || !button || button.disabled) return stopPlaying();
    playTimer = setTimeout(pressNext, PACES[Number(root.dataset.pace)]);
  }
  document.addEventListener("click", (event) => {
    if (!event.isTrusted || !event.target.closest) return;
    const play = event.target.closest("[data-play]");
    if (play) {
      const again = root.dataset.playing === play.dataset.play;
      stopPlaying();
      if (again) return;
      root.dataset.playing = play.dataset.play;
      pressNext();
    } else if (event.target.closest("[data-pace]:not(html)")) {
      root.dataset.pace = String((Number(root.dataset.pace) + 1) % PACES.length);
    } else if (event.target.closest("[data-act], #run, #recorded, #import, [role=tab]")) {
      stopPlaying();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.isTrusted && /^(Arrow|Home|End|Page|Escape)/.test(event.key)) stopPlaying();
  }, true);
  document.addEventListener("input", (event) => {
    if (event.isTrusted && event.target.matches("input[data-act]")) stopPlaying();
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) stopPlaying(); });

  function switchTheme() {
    const dark = !isDark();
    document.body.classList.toggle("dark", dark);
    document.documentElement.classList.remove("dark");
  }

  // The address holds what is on screen, so that it can be copied; keys of other tabs are left alone.
  const OURS = ["run", "step", "node", "view"];
  function setQuery(text) {
    const wanted = JSON.parse(text || "{}");
    const url = new URL(window.location.href);
    OURS.forEach((key) => url.searchParams.delete(key));
    Object.entries(wanted).forEach(([key, value]) => url.searchParams.set(key, value));
    if (url.href !== window.location.href) window.history.replaceState(window.history.state, "", url);
    // Inside a Space's frame the address bar belongs to the page around it.
    if (window.parent !== window) window.parent.postMessage({ queryString: url.search.slice(1) }, "https://huggingface.co");
  }

  window.eaglePage = { setQuery, mountFigure, mountActions, watchScreen, switchTheme, isDark };
})();
