// The saved page of a run: everything is in the file, this shows one step of it. See app/page_file.py.
(function () {
  "use strict";
  const run = JSON.parse(document.getElementById("run").textContent);
  const MARKUP = ["nav", "views", "node", "strip_title"];
  const ORDER = { tree: 0, strip: 1, steps: 2, calibration: 3, levels: 3, lengths: 3 };
  const watchers = {};
  const props = {};
  let at = run.opening;
  let view = "verify";
  document.documentElement.classList.toggle("dark", window.matchMedia("(prefers-color-scheme: dark)").matches);

  function shown(name) {
    const step = run.steps[at];
    return { views: step.views[view], tree: step.tree[view] }[name] || step[name] || run[name];
  }

  function bar() { // the same figure for every step: only the light column moves
    const half = run.bar.layout.shapes[0].x1 - run.bar.data[0].x[0];
    const x = run.bar.data[0].x[at];
    const shape = Object.assign({}, run.bar.layout.shapes[0], { x0: x - half, x1: x + half });
    return { data: run.bar.data, layout: Object.assign({}, run.bar.layout, { shapes: [shape] }) };
  }

  function show() {
    MARKUP.forEach((name) => { document.getElementById(name).innerHTML = shown(name); });
    const slider = document.querySelector("#nav input");
    slider.max = run.steps.length - 1;
    document.getElementById("step-next").disabled = at >= run.steps.length - 1;
    document.querySelectorAll(".answer .tok").forEach((token) => {
      token.classList.toggle("here", Number(token.dataset.step) === at);
    });
    Object.keys(props).forEach((name) => {
      props[name].value = JSON.stringify(name === "steps" ? bar() : shown(name));
    });
    Object.values(watchers).flat().forEach((changed) => changed());
  }

  function act(data) {
    if (data.act === "by") at += Number(data.by);
    if (data.act === "step") at = Number(data.step);
    if (data.act === "view") view = data.view;
    at = Math.min(Math.max(at, 0), run.steps.length - 1);
    show();
  }

  Object.keys(ORDER).forEach((name) => {
    const element = document.getElementById(name);
    element.innerHTML =
      '<div class="fig-scroll"><div class="fig" role="group" tabindex="-1"></div>' +
      '<p class="fig-alt" aria-live="off"></p></div>';
    props[name] = { value: "" };
    watchers[name] = [];
    const click = (kind, data) => { if (name === "steps" && kind === "click") act({ act: "step", step: data.point }); };
    window.eaglePage.mountFigure(element, props[name], click, (_, f) => watchers[name].push(f), ORDER[name]);
  });
  [...MARKUP, "answer"].forEach((name) => {
    watchers[name] = [];
    window.eaglePage.mountActions(document.getElementById(name), (_, data) => act(data), (_, f) => watchers[name].push(f));
  });
  show();
})();
