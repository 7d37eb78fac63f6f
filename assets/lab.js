// The rule lab's half in the browser. It sends actions to Python, puts the HTML that comes back in
// place without rebuilding what is already there, and keeps the address bar in step. It computes no
// number: every probability on screen was computed by Python.
// Runs as the component's js_on_load, with `element`, `props`, `watch` and `server` at hand.
const root = element.querySelector(".lab");
const PREFIX = "lab.";
let query = ""; // the state, as Python wrote it
let chain = Promise.resolve();
let live = null; // the newest action of a slider that is still waiting for its turn
let touched = false;

// Patching: the new HTML is walked beside the old, so that bars glide and fields keep the focus.

function sameKind(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
    (a.nodeType !== 1 || a.getAttribute("data-key") === b.getAttribute("data-key"));
}

function patch(old, fresh) {
  if (old.nodeType === 3) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== 1) return;
  const busy = old === document.activeElement;
  for (const { name } of Array.from(old.attributes)) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of Array.from(fresh.attributes)) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "INPUT") {
    const value = fresh.getAttribute("value") || "";
    if (!(busy && (old.type === "range" ? root.dataset.sliding : old.dataset.typing)) && old.value !== value) {
      old.value = value;
    }
  }
  patchChildren(old, fresh);
  if (old.nodeName === "SELECT") old.value = old.dataset.value || "";
}

function patchChildren(old, fresh) {
  const wanted = Array.from(fresh.childNodes);
  let at = old.firstChild;
  for (const node of wanted) {
    let match = at;
    while (match && !sameKind(match, node)) match = match.nextSibling;
    if (match && (match === at || node.nodeType === 1)) {
      while (at !== match) { const gone = at; at = at.nextSibling; gone.remove(); }
      patch(match, node);
      at = match.nextSibling;
    } else {
      old.insertBefore(node, at);
    }
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

function show(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  patchChildren(root, template.content);
  root.querySelectorAll("select").forEach((menu) => { menu.value = menu.dataset.value || ""; });
}

// The address bar.

function wholeQuery() {
  const kept = [];
  for (const part of window.location.search.replace(/^\?/, "").split("&")) {
    const key = decodeURIComponent(part.split("=")[0] || "");
    if (part && key !== "tab" && !key.startsWith(PREFIX)) kept.push(part);
  }
  return kept.concat(query.split("&").filter(Boolean)).join("&");
}

function writeAddress() {
  if (!touched) return;
  const text = wholeQuery();
  window.history.replaceState(window.history.state, "", "?" + text + window.location.hash);
  if (window.parent !== window) {
    window.parent.postMessage({ queryString: text, hash: window.location.hash }, "https://huggingface.co");
  }
}

function address() {
  return window.location.origin + window.location.pathname + "?" + wholeQuery();
}

// Actions go out one after the other, each with the state that the one before gave back.

function act(action, sliding) {
  if (sliding) {
    const waiting = live !== null;
    live = action;
    if (waiting) return chain;
  }
  chain = chain.then(async () => {
    let next = action;
    if (sliding) { next = live; live = null; }
    try {
      const reply = await server.lab_act({ query, action: next });
      query = reply.query;
      show(reply.html);
      afterwards(reply);
    } catch (error) {
      say("The server did not answer. Check the connection, then try again.");
    }
  });
  return chain;
}

function afterwards(reply) {
  document.documentElement.classList.toggle("lab-why", reply.why);
  roomLight(reply.room);
  writeAddress();
  root.dataset.ready = String(Number(root.dataset.ready || 0) + 1);
}

let wasDark = false;
function roomLight(on) {
  // A projector shows dark on light best, so class mode takes the whole page with it.
  const places = [document.body, document.documentElement];
  if (on && places.some((place) => place.classList.contains("dark"))) {
    wasDark = true;
    places.forEach((place) => place.classList.remove("dark"));
  } else if (!on && wasDark) {
    wasDark = false;
    document.body.classList.add("dark");
  }
  document.documentElement.classList.toggle("lab-in-class", Boolean(on));
}

function say(words) {
  let note = root.querySelector(".l-note");
  if (!note) {
    note = document.createElement("p");
    note.className = "l-note";
    note.setAttribute("role", "status");
    (root.querySelector(".lab-page") || root).prepend(note);
  }
  note.textContent = words;
}

function send(target, sliding) {
  const action = JSON.parse(target.dataset.act);
  if (target.matches("input, select")) {
    if (action.do === "card") action.lesson = Number(target.value);
    else action.v = target.value;
  }
  if (action.do === "guess") {
    action.v = target.closest("form").elements.probability.value;
  }
  touched = true;
  return act(action, sliding);
}

root.addEventListener("click", (event) => {
  const target = event.target.closest("button");
  if (!target || !root.contains(target)) return;
  // After a click with the mouse the space bar is the lesson's again, not this button's.
  if (event.detail > 0) target.blur();
  if (target.dataset.local) local(target);
  else if (target.dataset.act) send(target);
});
root.addEventListener("submit", (event) => event.preventDefault());
root.addEventListener("input", (event) => {
  if (event.target.matches("input[type=range][data-act]")) {
    root.dataset.sliding = "1";
    send(event.target, true);
  } else if (event.target.matches("input[type=text]")) {
    event.target.dataset.typing = "1";
  }
});
root.addEventListener("change", (event) => {
  const target = event.target;
  delete root.dataset.sliding;
  if (!target.dataset.act) return;
  if (target.matches("input[type=text]")) delete target.dataset.typing;
  if (target.matches("select") && target.value === "") return;
  send(target, target.type === "range");
});
root.addEventListener("focusout", (event) => { delete event.target.dataset.typing; });

// Keys: never taken from a field, and space never from a button that has the focus.

document.addEventListener("keydown", (event) => {
  if (!root.isConnected || root.offsetParent === null || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.closest("input, textarea, select, [contenteditable], [role=slider], [role=listbox]")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  // Elsewhere on the page arrows and space belong to whoever has them (tabs, figures).
  const tab = target.closest('[role="tab"][aria-selected="true"]'); // still focused after opening the lab
  if (target !== document.body && !root.contains(target) && !target.closest("#lab-proof") && !tab) return;
  if ((event.key === " " || event.key === "Enter") && target.closest("button, a, summary") && !tab) return;
  const action = keyAction(event);
  if (!action) return;
  event.preventDefault();
  if (action === "handled") return;
  touched = true;
  act(action);
});

function keyAction(event) {
  if (event.shiftKey) return null;
  const key = event.key.toLowerCase();
  const forecast = root.querySelector("[data-predict]");
  if (key === " " || key === "arrowright" || key === "pagedown") {
    if (!root.querySelector(".ladder")) return key === "pagedown" || key === " " ? { do: "card", v: "next" } : null;
    if (forecast) { forecast.elements.probability.focus(); return "handled"; }
    return { do: "next" };
  }
  if (key === "arrowleft" || key === "pageup") return root.querySelector(".ladder") ? { do: "back" } : null;
  if (key === "r") return { do: "new" };
  if (key === "n") return { do: "card", v: "next" };
  if (key === "p") return { do: "card", v: "previous" };
  if (key === "a") return { do: "reveal" };
  if (/^[1-6]$/.test(key)) return { do: "preset", v: Number(key) };
  return null;
}

// Copying, printing, saving a picture.

async function local(target) {
  const what = target.dataset.local;
  if (what === "print") window.print();
  if (what === "copy") {
    touched = true;
    writeAddress();
    try {
      await navigator.clipboard.writeText(address());
      say("The link is copied: it holds everything that you see here.");
    } catch (error) {
      say("Copy this link: " + address());
    }
  }
  if (what === "svg" || what === "png") save(target.closest(".pictured").querySelector("svg.lab-svg"), what);
}

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight",
  "opacity", "text-anchor", "vector-effect"];

function standalone(svg) {
  const copy = svg.cloneNode(true);
  const box = svg.getBoundingClientRect();
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of STYLED) node.style.setProperty(name, style.getPropertyValue(name));
    node.style.animation = "none";
  });
  const patterns = root.querySelector("svg.patterns");
  const defs = patterns.querySelector("defs").cloneNode(true);
  const sources = patterns.querySelectorAll("defs *");
  defs.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(sources[i]);
    node.style.fill = style.fill;
    node.style.stroke = style.stroke;
  });
  copy.prepend(defs);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(svg.closest(".lab-card")).backgroundColor);
  defs.after(ground);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", Math.round(box.width));
  copy.setAttribute("height", Math.round(box.height));
  return { text: new XMLSerializer().serializeToString(copy), width: box.width, height: box.height };
}

function save(svg, kind) {
  const { text, width, height } = standalone(svg);
  const name = (svg.dataset.figure || "picture").replace(/[^a-z0-9]+/gi, "-").toLowerCase();
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  if (kind === "svg") { download(source, name + ".svg"); return; }
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * 2);
    canvas.height = Math.round(height * 2);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(URL.createObjectURL(blob), name + ".png"), "image/png");
  };
  image.src = source;
}

function download(url, name) {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// The start: what another tab handed over, or what the address bar holds.

function handedOver() {
  if (!props.value || props.value === window.eagleLabSeen) return false;
  window.eagleLabSeen = props.value; // the tab may be built again when it is shown again
  touched = true;
  act({ do: "open", query: String(props.value).split("#")[0] });
  return true;
}

if (!handedOver()) {
  touched = window.location.search.includes(PREFIX);
  act({ do: "open", query: touched ? window.location.search : "" });
}
watch("value", handedOver);
