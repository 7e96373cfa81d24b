// Contrast of each kind of text with its background (WCAG 2.1, 1.4.3: 4.5).
(() => {
  const rgb = text => text.match(/[\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b + .05; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const faults = new Set();
  for (const e of document.querySelectorAll('p, li, th, td, h1, h2, h3, a, dt, dd, summary, caption, .flag, svg.chart text, pre')) {
    const style = getComputedStyle(e), ink = e.closest('svg') ? style.fill : style.color;
    const [a, b] = [light(rgb(ink)), light(ground(e.closest('svg') ? e.closest('figure') : e))];
    const contrast = Math.max(a, b) / Math.min(a, b);
    if (contrast < 4.5) faults.add(`${e.tagName}.${e.className.baseVal ?? e.className}: ${contrast.toFixed(2)}`);
  }
  return [...faults];
})()
