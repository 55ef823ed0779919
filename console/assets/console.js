// Live parts, relative times and buttons to copy. The pages work without this script.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // What happens is also told to people who do not see it.
  const voice = document.createElement("p");
  voice.className = "sr";
  voice.setAttribute("role", "status");
  document.body.append(voice);
  const say = text => { voice.textContent = text; };

  const button = (text, act) => {
    const b = document.createElement("button");
    b.type = "button";
    b.textContent = text;
    b.addEventListener("click", () => act(b));
    return b;
  };

  // Relative times, in the words of the server.
  const words = ms => {
    const s = Math.floor(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60);
    if (h >= 48) return Math.floor(h / 24) + "d";
    return h ? h + "h" : m ? m + "m" : s + "s";
  };
  // The clocks of the server and of this machine may differ: ages are counted from when the page was made.
  let made = all("footer time[datetime]").map(t => Date.parse(t.dateTime))[0] || Date.now();
  let since = performance.now();
  const tick = () => {
    const now = made + performance.now() - since;
    for (const t of all("time[datetime][title]")) {
      const age = now - Date.parse(t.dateTime);
      const text = age < 0 ? "in " + words(-age) : words(age) + " ago";
      if (/^in | ago$/.test(t.textContent) && t.textContent !== text) t.textContent = text;
    }
  };

  // Buttons to copy: beside each command line, and for what data-copy names.
  const copy = async (source, b) => {
    const text = source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not in a secure context
      getSelection().selectAllChildren(source);
      if (!document.execCommand("copy")) {
        say("Not copied: the text is selected");
        return;
      }
      getSelection().removeAllRanges();
      b.focus();
    }
    b.textContent = "Copied";
    say("Copied");
    setTimeout(() => { b.textContent = "Copy"; }, 2000);
  };
  const offer = within => {
    for (const code of all(".command code, [data-copy]", within)) {
      if (code.nextElementSibling?.matches(".copy")) continue;
      const b = button("Copy", b => copy(code, b));
      b.className = "copy";
      b.setAttribute("aria-label", "Copy " + (code.dataset.copy || "the command line"));
      code.after(b);
    }
  };

  // A page says when it is out of date: it cannot be read, or the stream of changes is lost for 5 s.
  let stale, doubt;
  const outdated = is => {
    if (!is === !stale) return;
    if (is) {
      stale = document.createElement("p");
      stale.className = "notice";
      stale.textContent = "This page is out of date: it could not be updated.";
      document.querySelector("main").prepend(stale);
      say(stale.textContent);
    } else {
      stale.remove();
      stale = null;
    }
  };
  const trust = () => { doubt = clearTimeout(doubt); };

  // Live parts: an element with data-live, the URL of its HTML, and data-topic, what has to change for it to be
  // read again. The browser parses the answer as a document, so that no text becomes HTML here.
  const reading = new Map(); // element -> whether to read it once more
  const read = part => {
    if (reading.has(part)) {
      reading.set(part, true);
      return;
    }
    reading.set(part, false);
    const request = new XMLHttpRequest();
    request.open("GET", part.dataset.live);
    request.responseType = "document";
    request.timeout = 30000;
    request.onloadend = () => {
      const again = reading.get(part);
      reading.delete(part);
      const fresh = request.status === 200 && request.response?.querySelector("[data-live]");
      if (!part.isConnected || paused || document.hidden) return;
      outdated(!fresh);
      if (!fresh) return;
      if (busy(part)) {
        late.add(part);
        return;
      }
      const date = Date.parse(request.getResponseHeader("Date"));
      if (date) [made, since] = [date, performance.now()];
      const now = replace(part, document.adoptNode(fresh));
      if (again) read(now);
    };
    request.send();
  };

  // A part is left alone while a person selects text in it, or has changed a field.
  const late = new Set();
  const busy = part => {
    const s = getSelection();
    return !s.isCollapsed && s.rangeCount > 0 && s.getRangeAt(0).intersectsNode(part) ||
      part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
  };
  const recover = () => {
    for (const part of late) {
      if (part.isConnected && busy(part)) continue;
      late.delete(part);
      if (part.isConnected) read(part);
    }
  };

  const nameOf = e => e.tagName + (e.id || e.getAttribute("href") || e.getAttribute("name") || e.textContent);
  const replace = (part, fresh) => {
    const open = new Set(all("details[open]", part).map(d => d.id || d.querySelector("summary")?.textContent));
    for (const d of all("details", fresh)) if (open.has(d.id || d.querySelector("summary")?.textContent)) d.open = true;
    const within = part.contains(document.activeElement) && document.activeElement;
    const same = within && all(within.tagName, part).filter(e => nameOf(e) === nameOf(within)).indexOf(within);
    const scrolls = all(".scroll", part).concat(part).map(e => e.scrollLeft);
    offer(fresh);
    part.replaceWith(fresh);
    all(".scroll", fresh).concat(fresh).forEach((e, i) => { e.scrollLeft = scrolls[i] || 0; });
    if (within) {
      const next = all(within.tagName, fresh).filter(e => nameOf(e) === nameOf(within))[same];
      const target = next || fresh;
      if (!next) fresh.tabIndex = -1;
      target.focus({ preventScroll: true });
    }
    tick();
    return fresh;
  };

  // The stream of changes. It is open while the page is seen and not paused.
  const topicOf = part => part.dataset.topic || ".";
  let stream, retry, paused = sessionStorage.getItem("paused") === "yes";
  const close = () => {
    stream?.close();
    clearTimeout(retry);
    trust();
    stream = null;
  };
  const connect = () => {
    close();
    const parts = all("[data-live]");
    if (paused || document.hidden || !parts.length) return;
    const topics = [...new Set(parts.map(topicOf))];
    stream = new EventSource("events?" + new URLSearchParams(topics.map(t => ["topic", t])));
    stream.addEventListener("change", e => {
      const changed = e.data.split(" ");
      for (const part of all("[data-live]")) if (changed.includes(topicOf(part))) read(part);
    });
    stream.onopen = trust;
    stream.onerror = () => {
      doubt ??= setTimeout(outdated, 5000, true);
      if (stream?.readyState === EventSource.CLOSED) retry = setTimeout(connect, 30000);
    };
  };

  if (document.querySelector("[data-live]")) {
    const label = b => {
      b.textContent = paused ? "Resume" : "Pause";
      b.setAttribute("aria-label", paused ? "Resume live updates" : "Pause live updates");
    };
    const pause = button("", b => {
      paused = !paused;
      sessionStorage.setItem("paused", paused ? "yes" : "no");
      label(b);
      say(paused ? "Live updates are paused" : "Live updates are on");
      connect();
    });
    pause.className = "pause";
    label(pause);
    document.querySelector(".bar").append(pause);
  }
  document.addEventListener("visibilitychange", connect);
  document.addEventListener("selectionchange", recover);
  document.addEventListener("focusout", () => setTimeout(recover));
  addEventListener("pagehide", close);
  addEventListener("pageshow", e => { if (e.persisted) connect(); });
  setInterval(() => { if (!document.hidden && !paused) tick(); }, 1000);
  offer(document);
  connect();
})();
