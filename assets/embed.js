// The embedded page of a recorded run: shows the state it came with, and asks the server for the next
// one when something is clicked. The address always names what is on screen.
(function () {
  "use strict";
  const ORDER = { tree: 0, steps: 2, candidates: 1, strip: 1 };
  const KEYED = { tree: true };
  const watchers = {};
  const props = {};
  let state = JSON.parse(document.getElementById("state").textContent);
  let asked = 0;

  async function ask(event) {
    const query = new URLSearchParams(state.query);
    Object.entries(event).forEach(([key, value]) => {
      query.set(key in state.query && key !== "act" ? "on." + key : key, value);
    });
    const mine = ++asked;
    const answer = await fetch("embed/state?" + query);
    if (!answer.ok || mine !== asked) return;
    state = await answer.json();
    show();
    const url = new URL(window.location.href);
    ["run", "step", "node", "view", "shown", "cut", "log"].forEach((key) => url.searchParams.delete(key));
    Object.entries(state.query).forEach(([key, value]) => {
      if (key !== "narrow") url.searchParams.set(key, value); // the page's width is the reader's
    });
    window.history.replaceState(null, "", url);
  }

  function show() {
    Object.entries(state.markup).forEach(([name, html]) => {
      document.getElementById(name).innerHTML = html;
      watchers[name].forEach((changed) => changed());
    });
    Object.entries(state.figures).forEach(([name, value]) => {
      document.getElementById(name).hidden = state.hidden.includes(name);
      props[name].value = value;
      watchers[name].forEach((changed) => changed());
    });
  }

  Object.keys(state.figures).forEach((name) => {
    const element = document.getElementById(name);
    const focus = KEYED[name] ? "0" : "-1";
    element.innerHTML =
      '<div class="fig-scroll"><div class="fig" role="group" tabindex="' + focus + '"></div>' +
      '<p class="fig-alt" aria-live="off"></p></div>';
    props[name] = { value: state.figures[name] };
    watchers[name] = [];
    const trigger = (kind, data) => {
      if (kind === "press") ask({ act: "key", key: data.key });
      else if (name === "steps") ask({ act: "step", step: data.point });
      else if (name === "tree") ask({ act: "node", node: data.point });
    };
    window.eaglePage.mountFigure(element, props[name], trigger, (_, f) => watchers[name].push(f), ORDER[name]);
  });
  Object.keys(state.markup).forEach((name) => {
    watchers[name] = [];
    const watch = (_, changed) => watchers[name].push(changed);
    window.eaglePage.mountActions(document.getElementById(name), (_, data) => ask(data), watch);
  });
  window.eaglePage.watchScreen((_, data) => ask(data));
  show();
})();
