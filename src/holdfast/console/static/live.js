// What every page does by itself: ages stay true, ticks of the server refresh the parts that are live, and dangerous buttons ask first.
"use strict";

(() => {
  const root = document.body.dataset.root || "./";

  // --- times
  const units = [[86400, "d"], [3600, "h"], [60, "m"]];
  const span = (ms) => {
    let s = Math.max(0, ms / 1000);
    if (s < 60) return (s < 10 ? s.toFixed(1) : Math.floor(s)) + " s";
    for (const [size, unit] of units) {
      if (s >= size) {
        const lower = { d: [3600, "h"], h: [60, "m"], m: [1, "s"] }[unit];
        return Math.floor(s / size) + " " + unit + " " + Math.floor((s % size) / lower[0]) + " " + lower[1];
      }
    }
  };
  const ages = () => {
    const now = Date.now();
    for (const at of document.querySelectorAll("time[data-age], time[data-since], time[data-until]")) {
      const then = Date.parse(at.dateTime);
      let text = span(now - then);
      if ("age" in at.dataset) text = now - then < 1000 ? "now" : text.replace(/ \d+ [smh]$/, "") + " ago";
      if ("until" in at.dataset) text = then > now ? "in " + span(then - now) : "over";
      if (at.textContent !== text) at.textContent = text;
    }
  };
  ages();
  setInterval(ages, 1000);
  document.addEventListener("htmx:after:swap", ages);

  // --- on a narrow screen, the name of this page may lie beside the part of the menu that is seen
  const here = document.querySelector(".top nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft + here.offsetWidth - here.parentElement.offsetLeft - here.parentElement.clientWidth;

  // --- ticks: the server says that something changed, and each live part asks for itself again
  const follow = () => {
    const parts = () => document.querySelectorAll("[data-live]");
    if (!parts().length) return;
    const run = document.body.dataset.run;
    const stream = new EventSource(root + "ticks" + (run ? "?run=" + encodeURIComponent(run) : ""));
    let held = false;
    const tick = () => {
      if (document.hidden) { held = true; return; }
      held = false;
      for (const part of parts()) htmx.trigger(part, "tick");
      document.dispatchEvent(new CustomEvent("holdfast:tick"));
    };
    stream.onmessage = tick;
    document.addEventListener("visibilitychange", () => { if (held) tick(); });
    addEventListener("pagehide", () => stream.close());
  };
  addEventListener("load", follow);

  // --- a form that asks first
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  // --- copy
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = "copied"; });
  });
})();
