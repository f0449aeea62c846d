// What is wrong with the pages in the frames of this document, a line for each fault.
function luminance(colour) {
  const part = value => { const share = value / 255; return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; };
  const [red, green, blue] = colour.match(/[\d.]+/g).map(Number).map(part);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
function isClear(colour) { return colour === "transparent" || /^rgba\(.*, 0\)$/.test(colour); }
function paper(element, view) {
  for (let at = element; at; at = at.parentElement) {
    const colour = view.getComputedStyle(at).backgroundColor;
    if (!isClear(colour)) return luminance(colour);
  }
  return 1;
}
function contrast(one, other) { return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05); }
function short(element) { return element.tagName + " \"" + element.textContent.trim().slice(0, 40) + "\""; }
function common(one, other) {
  return [Math.min(one.right, other.right) - Math.max(one.left, other.left), Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top)];
}
function faultsOfFigure(figure, view, tell) {
  const svg = figure.querySelector("svg");
  if (!svg) return tell("a figure without a drawing: " + short(figure));
  const box = svg.getBoundingClientRect(), name = figure.querySelector("h3")?.textContent ?? "";
  if (box.width < 250 || box.height < 60) tell(`${name}: ${box.width} x ${box.height} pixels are too few`);
  const isInk = colour => colour && !["none", "#000000", "#FFFFFF"].includes(colour);
  const inked = [...svg.querySelectorAll("*")].filter(at => isInk(at.getAttribute("fill")) || isInk(at.getAttribute("stroke")));
  const texts = [...svg.querySelectorAll("text")];
  if (!inked.length && !texts.some(text => text.textContent.trim().startsWith("Nothing"))) tell(name + ": an empty figure");
  for (const [at, text] of texts.entries()) {
    const one = text.getBoundingClientRect();
    if (one.left < box.left - 1 || one.right > box.right + 1 || one.top < box.top - 1 || one.bottom > box.bottom + 1) tell(`${name}: ${short(text)} is cut off`);
    if (Number(text.getAttribute("font-size")) * box.width / svg.viewBox.baseVal.width < 8) tell(`${name}: ${short(text)} is too small`);
    for (const other of texts.slice(0, at)) {
      const [wide, high] = common(one, other.getBoundingClientRect());
      if (wide > 3 && high > one.height / 2) tell(`${name}: ${short(text)} covers ${short(other)}`);
    }
    if (contrast(luminance(view.getComputedStyle(text).fill), paper(figure, view)) < 4.5) tell(`${name}: ${short(text)} is hard to read`);
  }
}
function faultsOf(frame, isDark) {
  const view = frame.contentWindow, page = frame.contentDocument, faults = [], tell = fault => faults.push(`${frame.width}, ${isDark ? "dark" : "light"}: ${fault}`);
  if (view.innerWidth !== Number(frame.width)) tell("the frame is " + view.innerWidth + " pixels wide");
  if (page.documentElement.scrollWidth > view.innerWidth) {
    const over = [...page.querySelectorAll("body *")].filter(at => at.getBoundingClientRect().right > view.innerWidth + 1 && !at.closest("svg, .wide, pre"));
    tell("the page is wider than its window: " + over.slice(-3).map(short).join(", "));
  }
  const ground = paper(page.body, view);
  if (isDark ? ground > 0.1 : ground < 0.8) tell("the ground has luminance " + ground.toFixed(2));
  const words = page.body.cloneNode(true);
  words.querySelectorAll("script, style").forEach(at => at.remove());
  const raw = words.textContent.match(/&(lt|gt|amp|quot|#\d+);|<\/?(a|b|br|code|div|em|figure|g|h\d|li|p|path|pre|section|span|strong|svg|table|td|text|th|tr|ul)\b[^<]{0,40}>/);
  if (raw) tell("raw markup: " + raw[0]);
  for (const at of page.querySelectorAll("h1, h2, h3, p, li, th, td, pre, code, figcaption, summary, dt, dd")) {
    if (at.textContent.trim() && contrast(luminance(view.getComputedStyle(at).color), paper(at, view)) < 4.5) tell(short(at) + " is hard to read");
  }
  page.querySelectorAll("figure").forEach(figure => faultsOfFigure(figure, view, tell));
  return faults;
}
addEventListener("load", () => {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const faults = [...document.querySelectorAll("iframe")].flatMap(frame => {
    try { return faultsOf(frame, isDark); } catch (error) { return ["the probe failed: " + error.stack]; }
  });
  for (const frame of document.querySelectorAll("iframe")) frame.height = frame.contentDocument.documentElement.scrollHeight;
  document.title = "faults " + JSON.stringify([isDark, ...faults]);
});
