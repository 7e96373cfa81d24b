(() => {
  const faults = [];
  const wide = document.documentElement.scrollWidth, window_ = document.documentElement.clientWidth;
  if (wide > window_) {
    const far = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, svg') && e.getBoundingClientRect().right > window_ + 1);
    faults.push(`the page is ${wide} wide in a window of ${window_}: ${far.slice(0, 3).map(e => e.tagName + '.' + e.className)}`);
  }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach(id => faults.push(`two elements are ${id}`));
  for (const use of document.querySelectorAll('[aria-labelledby]'))
    for (const id of use.getAttribute('aria-labelledby').split(' '))
      if (!document.getElementById(id)?.textContent) faults.push(`nothing is named ${id}`);
  for (const link of document.querySelectorAll('a[href^="#"]'))
    if (!document.getElementById(link.getAttribute('href').slice(1))) faults.push(`${link.href} leads nowhere`);
  for (const chart of document.querySelectorAll('svg.chart')) {
    // On a phone and on paper the tables stand for this one.
    if (chart.closest('.factors') && (window_ < 720 || matchMedia('print').matches)) continue;
    const name = chart.querySelector('title').textContent, box = chart.getBoundingClientRect();
    if (box.width < 200 || box.height < 40) faults.push(`${name}: ${box.width} by ${box.height}`);
    const shown = [...chart.querySelectorAll('rect:not(.back), path, circle')].filter(e => {
      const b = e.getBoundingClientRect(); return b.width + b.height > 0.5; });
    if (!shown.length) faults.push(`${name}: nothing is drawn`);
    for (const e of chart.querySelectorAll('rect, path, circle, line, text')) {
      const b = e.getBoundingClientRect();
      if (b.left < box.left - 6 || b.right > box.right + 6 || b.top < box.top - 6 || b.bottom > box.bottom + 6)
        faults.push(`${name}: ${e.tagName} ${e.textContent} leaves the chart by ${[box.left - b.left, b.right - box.right, box.top - b.top, b.bottom - box.bottom].map(Math.round)}`);
    }
    const texts = [...chart.querySelectorAll('text')].filter(t => t.textContent).map(t => [t, t.getBoundingClientRect()]);
    for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
      const [a, b] = [texts[i][1], texts[j][1]];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 6) faults.push(`${name}: '${texts[i][0].textContent}' lies on '${texts[j][0].textContent}'`);
    }
    // Bars begin at the zero of the axis.
    const zero = [...chart.querySelectorAll('text.tick')].find(t => t.textContent === '0');
    const bars = [...chart.querySelectorAll('rect.back')];
    if (bars.length && !zero) faults.push(`${name}: no axis begins at zero`);
    for (const bar of bars)
      if (Math.abs(bar.getBoundingClientRect().left - zero.getBoundingClientRect().left) > 1) faults.push(`${name}: a bar does not begin at zero`);
  }
  for (const figure of document.querySelectorAll('figure'))
    if (!figure.querySelector('table caption')) faults.push(`${figure.id} has no table`);
  return faults;
})()
