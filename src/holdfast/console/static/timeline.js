// The timeline of a run: a pool of rows that is pointed at another part of the list on scroll, pages of rows from the server, the keyboard,
// and the panel beside it. The list may have any length: no element is as tall as it.
"use strict";

(() => {
  const home = document.getElementById("timeline");
  if (!home) return;
  const ROW = 28, MOST_ROWS = 58, MOST_TALL = 60000, KEPT_PAGES = 24, ORIGIN = 280000;
  const size = Number(home.dataset.size);
  const body = document.getElementById("run-body");
  const panel = document.getElementById("panel");
  const search = home.querySelector("input[type=search]");
  const errors = home.querySelector("input[type=checkbox]");
  const told = home.querySelector(".tl-told");
  const LOUD = { warning: "retrying", error: "failed", critical: "failed" };
  const BAD = new Set(["failed", "stopped", "blocked", "quarantined"]);

  const make = (tag, name, parent) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (parent) parent.append(made);
    return made;
  };
  const SVG = "http://www.w3.org/2000/svg";

  // --- what is known of the list
  let total = 0;          // rows of the whole list, with the present choice
  let pages = new Map();  // number of a page -> its rows
  let asked = new Map();  // number of a page -> the request that fetches it
  let toggled = new Set();
  let version = 0;        // grows when rows may have changed, so that the pool is filled again
  let selected = -1, selectedId = home.dataset.op || "";
  let chosenId = "";      // the operation of the selected row
  let top = 0;            // the first pixel of the list that is shown
  let latest = null;      // totals and axis, as the server told last

  // --- the elements
  const plain = home.querySelector(".tl-plain");
  const head = make("div", "tl-head");
  make("span", "", head).textContent = "Operation";
  make("span", "number cost-col", head).textContent = "Cost";
  make("span", "number", head).textContent = "Took";
  const axis = make("div", "tl-axis", head);
  const view = make("div", "tl-view");
  view.tabIndex = 0;
  view.setAttribute("role", "tree");
  view.setAttribute("aria-label", "Operations");
  const pool = make("div", "tl-pool", view);
  pool.setAttribute("role", "none");
  const bands = make("div", "tl-bands", pool);
  bands.setAttribute("aria-hidden", "true");
  const tall = make("div", "", view);
  const none = make("div", "empty");
  none.hidden = true;
  const rows = [];

  const newRow = () => {
    const at = make("div", "tl-row", pool);
    at.setAttribute("role", "treeitem");
    const code = make("div", "tl-code", at);
    const twist = make("button", "tl-twist", code);
    twist.type = "button";
    twist.tabIndex = -1;
    twist.setAttribute("aria-hidden", "true");
    const mark = document.createElementNS(SVG, "svg");
    mark.setAttribute("class", "mark");
    mark.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(SVG, "use");
    mark.append(use);
    code.append(mark);
    const row = {
      at, code, twist, mark, use, index: -1, version: -1,
      verb: make("span", "tl-verb", code), name: make("span", "tl-name", code), times: make("span", "tl-times", code),
      tail: make("span", "tl-tail", code), open: make("a", "tl-open", code),
      cost: make("div", "tl-cost", at), took: make("div", "tl-took", at), track: make("div", "tl-track", at),
    };
    row.open.textContent = "open";
    row.open.tabIndex = -1;
    row.bar = make("i", "tl-bar", row.track);
    return row;
  };

  const dataAt = (index) => {
    const page = pages.get(Math.floor(index / size));
    return page && page[index % size];
  };

  const fill = (row, index) => {
    const data = dataAt(index);
    row.index = index;
    row.version = version;
    const at = row.at;
    at.id = "tl-" + index;
    at.setAttribute("aria-selected", String(index === selected));
    at.setAttribute("aria-posinset", String(index + 1));
    if (!data) {
      row.verb.textContent = "…";
      row.name.textContent = row.tail.textContent = row.times.textContent = row.cost.textContent = row.took.textContent = "";
      row.twist.hidden = row.open.hidden = true;
      row.mark.setAttribute("class", "mark");
      row.use.setAttribute("href", "");
      row.bar.hidden = true;
      at.removeAttribute("aria-expanded");
      return;
    }
    at.setAttribute("aria-level", String(data.d + 1));
    const loud = data.v === "log" ? LOUD[data.n] : BAD.has(data.s) && data.s;
    row.tail.className = loud ? "tl-tail s-" + loud : "tl-tail";
    at.classList.toggle("tl-log", data.v === "log");
    row.code.style.paddingLeft = 8 + Math.min(data.d, 12) * 16 + "px";
    row.verb.textContent = data.v;
    row.name.textContent = data.n;
    row.tail.textContent = data.t;
    at.title = data.t;
    row.times.textContent = data.a ? "×" + data.a : "";
    row.times.hidden = !data.a;
    row.twist.hidden = !data.k;
    row.twist.classList.toggle("closed", Boolean(data.c));
    if (data.k) at.setAttribute("aria-expanded", String(!data.c)); else at.removeAttribute("aria-expanded");
    row.mark.setAttribute("class", "mark s-" + data.s);
    row.use.setAttribute("href", "#mark-" + data.s);
    at.setAttribute("aria-label", [data.v + " " + data.n + " " + data.t, data.s, data.u].filter(Boolean).join(", "));
    row.open.hidden = !data.r;
    if (data.r) row.open.href = home.dataset.page.replace(/[^/]*$/, "") + data.r;
    row.cost.textContent = data.m || "";
    row.took.textContent = data.u;
    row.bar.hidden = !data.b;
    row.bar.className = "tl-bar " + data.b + " s-" + data.s;
    row.bar.style.left = data.x / 100 + "%";
    row.bar.style.width = Math.max(data.y - data.x, 0) / 100 + "%";
  };

  // --- scrolling: `top` is in pixels of the list; the scrollbar is scaled where the list is taller than an element may be
  const height = () => view.clientHeight;
  const whole = () => total * ROW;
  const furthest = () => Math.max(0, whole() - height());
  const scaled = () => whole() > MOST_TALL;
  let ours = -1; // the scroll position that we have set ourselves

  const draw = () => {
    const first = Math.floor(top / ROW);
    const shown = Math.min(Math.ceil(height() / ROW) + 1, MOST_ROWS);
    while (rows.length < shown) rows.push(newRow());
    const from = Math.floor(top / ORIGIN) * ORIGIN; // rows keep their place while the pool moves under them
    pool.style.transform = "translateY(" + (from - top) + "px)";
    bands.style.transform = "translateY(" + (top - from) + "px)";
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      const index = first + ((i - first) % rows.length + rows.length) % rows.length;
      const hidden = index >= total || index >= first + shown;
      if (row.at.hidden !== hidden) row.at.hidden = hidden;
      if (hidden) continue;
      if (row.index !== index || row.version !== version) fill(row, index);
      if (row.y !== index * ROW - from) row.at.style.transform = "translateY(" + (row.y = index * ROW - from) + "px)";
    }
    want(first);
    want(Math.min(total - 1, first + shown));
  };
  let due = false;
  const redraw = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; draw(); });
  };
  const moveTo = (place) => {
    top = Math.round(Math.max(0, Math.min(place, furthest())));
    ours = scaled() ? Math.round(top / furthest() * (view.scrollHeight - height())) : top;
    view.scrollTop = ours;
    ours = view.scrollTop;
    redraw();
  };
  view.addEventListener("scroll", () => {
    if (Math.abs(view.scrollTop - ours) < 1) return;
    ours = view.scrollTop;
    const room = view.scrollHeight - height();
    top = scaled() ? Math.round(ours / Math.max(room, 1) * furthest()) : ours;
    redraw();
  }, { passive: true });
  view.addEventListener("wheel", (event) => {
    if (!scaled() || event.ctrlKey || !event.deltaY) return;
    const by = event.deltaY * (event.deltaMode === 1 ? ROW : event.deltaMode === 2 ? height() : 1);
    if ((by < 0 && top <= 0) || (by > 0 && top >= furthest())) return;
    event.preventDefault();
    moveTo(top + by);
  }, { passive: false });

  const fit = () => {
    const below = innerHeight - (view.getBoundingClientRect().top + scrollY) - 8; // what is left of the window under the head
    const room = Math.min(below >= 12 * ROW ? below : Math.max(10 * ROW, innerHeight - 48 - ROW - 46), (MOST_ROWS - 2) * ROW);
    view.style.height = Math.max(ROW, Math.min(whole(), room)) + "px";
    tall.style.height = Math.min(whole(), MOST_TALL) + "px";
    const track = rows.length ? rows[0].track : axis;
    bands.style.width = track.offsetWidth + "px";
    bands.style.height = view.style.height;
    view.hidden = head.hidden = !total;
    none.hidden = Boolean(total);
  };
  addEventListener("resize", () => { fit(); moveTo(top); });

  // --- rows from the server
  const address = (from, more) => {
    const query = new URLSearchParams({ from: String(from) });
    if (search.value.trim()) query.set("q", search.value.trim());
    if (errors.checked) query.set("errors", "1");
    if (toggled.size) query.set("toggled", [...toggled].join(","));
    for (const [name, value] of Object.entries(more || {})) query.set(name, value);
    return home.dataset.url + "?" + query;
  };
  const fetched = async (from, more, signal) => {
    const answer = await fetch(address(from, more), { signal, headers: { "accept": "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  };
  const want = (index) => {
    const page = Math.floor(Math.max(0, index) / size);
    if (!total || pages.has(page) || asked.has(page)) return;
    const stop = new AbortController();
    asked.set(page, stop);
    fetched(page * size, null, stop.signal).then((found) => {
      asked.delete(page);
      keep(page, found);
      redraw();
    }).catch(() => asked.delete(page));
  };
  const keep = (page, found) => {
    pages.set(page, found.rows);
    for (const row of rows) if (Math.floor(row.index / size) === page) row.version = -1;
    while (pages.size > KEPT_PAGES) pages.delete(pages.keys().next().value);
    if (found.total !== total) { total = found.total; fit(); }
    tell(found);
  };
  let drawn = "";
  const tell = (found) => {
    latest = found;
    const words = found.told + (found.total !== found.operations && (search.value || errors.checked) ? " · " + found.total.toLocaleString("en") + " shown" : "");
    if (told.textContent !== words) told.textContent = words;
    none.textContent = search.value || errors.checked ? "Nothing matches." : found.over ? "It ended without an operation." : "No operation has begun yet.";
    const scale = JSON.stringify([found.ticks, found.folds]);
    if (scale === drawn) return;
    drawn = scale;
    axis.replaceChildren();
    let free = 0;
    for (const [place, label] of found.ticks) {
      const at = make("span", "", axis);
      at.textContent = label;
      at.style.left = place / 100 + "%";
      const box = at.getBoundingClientRect();
      if (box.left < free) at.remove();  // its label would be written over the one before it
      else free = box.right;
    }
    bands.replaceChildren();
    for (const [begin, end, label, title] of found.folds) {
      const at = make("span", "tl-idle", axis);
      at.textContent = label;
      at.title = title;
      // A label may be longer than its fold. Then it goes on towards the middle of the axis, so that the edge of the axis does not cut it.
      if (end > 5000) at.style.right = 100 - end / 100 + "%";
      else at.style.left = begin / 100 + "%";
      at.style.minWidth = (end - begin) / 100 + "%";
      const band = make("i", "", bands);
      band.style.left = begin / 100 + "%";
      band.style.width = (end - begin) / 100 + "%";
    }
  };
  // Ask for everything that is shown again. `op` is a row that must be seen.
  let reloading = null, took = 0;
  const reload = async (op) => {
    if (reloading) reloading.abort();
    const stop = reloading = new AbortController();
    for (const one of asked.values()) one.abort();
    asked.clear();
    const began = performance.now();
    const from = Math.floor(Math.max(0, Math.min(top / ROW, total - 1)) / size) * size;
    let found;
    try {
      found = await fetched(from, op ? { op } : null, stop.signal);
    } catch { return; }
    if (reloading !== stop) return;
    reloading = null;
    took = performance.now() - began;
    pages = new Map();
    version++;
    total = found.total;
    if (found.selected !== null && op) {
      toggled = new Set(found.toggled);
      selected = found.selected;
      chosenId = op;
      fit();
      tell(found);
      if (selected * ROW < top || (selected + 1) * ROW > top + height()) moveTo(selected * ROW - height() / 2);
      if (found.at % size === 0) keep(found.at / size, found);
    } else {
      keep(Math.floor(found.at / size), found);
      const still = (found.rows[selected - found.at] || {}).i === chosenId;
      const moved = still ? -1 : found.rows.findIndex((row) => row.i === chosenId); // rows may have begun above it
      if (selected >= 0 && moved >= 0) selected = found.at + moved;
      fit();
    }
    moveTo(top);
  };
  const again = () => { toggled.clear(); selected = -1; top = 0; reload(); };

  // --- choosing a row
  const choose = (index, open) => {
    if (!total) return;
    selected = Math.max(0, Math.min(index, total - 1));
    chosenId = (dataAt(selected) || {}).i || "";
    version++;
    view.setAttribute("aria-activedescendant", "tl-" + selected);
    if (selected * ROW < top) moveTo(selected * ROW);
    else if ((selected + 1) * ROW > top + height()) moveTo((selected + 1) * ROW - height());
    else redraw();
    if (open || (!panel.hidden && open !== false)) show();
  };
  const toggle = (index) => {
    const data = dataAt(index);
    if (!data || !data.k) return;
    if (toggled.has(data.p)) toggled.delete(data.p); else toggled.add(data.p);
    selected = index;
    chosenId = data.i;
    data.c = !data.c;
    reload();
  };
  const parentOf = (index) => {
    const data = dataAt(index);
    for (let i = index - 1; data && i >= 0 && dataAt(i); i--) if (dataAt(i).d < data.d) return i;
    return index;
  };

  // --- the panel
  const here = (op) => home.dataset.page + (op ? "?op=" + encodeURIComponent(op) : "");
  const load = (url) => htmx.ajax("GET", url + (url.includes("?") ? "&" : "?") + "part=panel", { target: panel, swap: "innerHTML" });
  let waiting = 0;
  const show = () => {
    const data = dataAt(selected);
    if (!data || (data.i === selectedId && !panel.hidden)) return;
    selectedId = data.i;
    history.replaceState(null, "", here(data.i));
    clearTimeout(waiting);
    waiting = setTimeout(() => { load(here(data.i)); reveal(); }, 60);
  };
  const reveal = () => {
    if (!panel.hidden) return;
    panel.hidden = false;
    body.classList.add("with-panel");
    fit();
    redraw();
  };
  const close = () => {
    if (panel.hidden) return;
    panel.hidden = true;
    panel.replaceChildren();
    selectedId = "";
    body.classList.remove("with-panel");
    history.replaceState(null, "", here(""));
    fit();
    redraw();
    view.focus({ preventScroll: true });
  };

  // --- mouse and keys
  view.addEventListener("click", (event) => {
    const at = event.target.closest(".tl-row");
    if (!at || event.target.closest("a")) return;
    const index = Number(at.id.slice(3));
    if (event.target.closest(".tl-twist")) toggle(index); else choose(index, true);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-op], a[data-panel], a.side-close");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.matches(".side-close")) close();
    else if (link.matches("[data-panel]")) load(link.getAttribute("href"));
    else { selectedId = ""; reload(link.dataset.op).then(() => { selectedId = link.dataset.op; history.replaceState(null, "", here(selectedId)); load(here(selectedId)); reveal(); }); }
  });
  const step = () => Math.max(1, Math.floor(height() / ROW) - 1);
  const keys = {
    ArrowDown: () => choose(selected + 1),
    ArrowUp: () => choose(selected - 1),
    PageDown: () => choose(selected + step()),
    PageUp: () => choose(selected - step()),
    Home: () => choose(0),
    End: () => choose(total - 1),
    ArrowRight: () => { const data = dataAt(selected); if (data && data.k) { if (data.c) toggle(selected); else choose(selected + 1); } },
    ArrowLeft: () => { const data = dataAt(selected); if (data && data.k && !data.c) toggle(selected); else choose(parentOf(selected)); },
    Enter: () => choose(Math.max(0, selected), true),
    e: () => { errors.checked = !errors.checked; again(); },
    "/": () => search.focus(),
    "?": () => document.getElementById("tl-help").showModal(),
    Escape: close,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = event.target;
    if (at.matches("input, textarea, select")) {
      if (event.key === "Escape") { if (at === search && search.value) { search.value = ""; again(); } view.focus(); }
      return;
    }
    if (at.closest("dialog, [popover]")) return;
    if (event.key === "Enter" && at.matches("a, button, summary")) return;
    if (/^(Arrow|Page|Home|End)/.test(event.key) && panel.contains(at)) return;
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!act) return;
    event.preventDefault();
    act();
  });
  let typed = 0;
  search.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(again, 200); });
  errors.addEventListener("change", again);
  search.form.addEventListener("submit", (event) => { event.preventDefault(); again(); view.focus(); });

  // --- live: a tick says that something has changed. A slow answer is not asked for more often than it can be given.
  let held = 0, last = 0;
  const writes = () => panel.querySelector("details[open] form") || [...panel.querySelectorAll("input:not([type=hidden]), textarea")]
    .some((field) => field === document.activeElement || field.value !== field.defaultValue || field.hasAttribute("style")); // typed, or resized
  const refresh = () => {
    held = 0;
    last = performance.now();
    reload();
    const shown = panel.querySelector(".side-in");
    if (shown && shown.dataset.going && !writes()) load(here(selectedId));
  };
  const soon = () => {
    if (held || !latest) return;
    const pause = Math.max(0, 8 * took - (performance.now() - last));
    held = setTimeout(refresh, pause);
  };
  document.addEventListener("holdfast:tick", soon);
  setInterval(() => { if (latest && !latest.over && !document.hidden) soon(); }, 5000);

  // --- begin
  search.title = "Press / to search, ? for all keys";
  const help = make("button", "link small", home.querySelector(".tl-tools"));
  help.type = "button";
  help.textContent = "keys";
  help.addEventListener("click", keys["?"]);
  plain.replaceWith(head, view, none);
  total = 1;
  fit();
  reload(selectedId || undefined).then(() => { if (selectedId) view.focus({ preventScroll: true }); });
})();
