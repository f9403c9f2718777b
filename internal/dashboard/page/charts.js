// Charts of a few SVG paths each, however many points there are.

/** Has an SVG of a size consist of paths: { class: d }. */
function draw(svg, width, height, paths) {
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  for (const [name, d] of Object.entries(paths)) {
    let path = svg.querySelector(`.${name}`);
    if (!path) {
      path = svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'path'));
      path.setAttribute('class', name);
      path.setAttribute('vector-effect', 'non-scaling-stroke');
    }
    path.setAttribute('d', d);
  }
}

/**
 * Draws points [time, value] from one time to another as steps: each value holds until the next. The
 * scale is that of the points, and includes 0 with fromZero. A line needs two points.
 */
export function steps(svg, points, from, to, fromZero) {
  const width = 300, height = 60, edge = 2;
  const seen = points.filter(([t], i) => t >= from || !(points[i + 1]?.[0] <= from));
  if (points.length < 2) return draw(svg, width, height, { area: '', line: '' });
  const values = seen.map(([, v]) => v).concat(fromZero ? 0 : []);
  const low = Math.min(...values), high = Math.max(...values);
  const flat = fromZero ? 0 : 0.5; // where a line is that neither rises nor falls
  const x = (t) => (((Math.min(Math.max(t, from), to) - from) / (to - from)) * width).toFixed(1);
  const y = (v) => (height - edge - (high === low ? flat : (v - low) / (high - low)) * (height - 2 * edge)).toFixed(1);
  const [first, ...rest] = seen.map(([t, v]) => [x(t), y(v)]);
  const line = `M${first.join(' ')}${rest.map(([x, y]) => `H${x}V${y}`).join('')}H${width}`;
  draw(svg, width, height, { area: `${line}V${height}H${first[0]}Z`, line });
}

/**
 * Draws a bar for each value up from 0, or down if it is below, and a line at mark if there is one. kind
 * names the class of a bar.
 */
export function bars(svg, values, kind, mark) {
  const height = 80, step = 10, gap = values.length > 150 ? 0 : 1.5;
  const width = Math.max(step, values.length * step);
  const high = Math.max(mark === undefined ? 0 : mark * 1.25, ...values), low = Math.min(0, ...values);
  const y = (v) => (height - (high === low ? 0 : (v - low) / (high - low)) * height).toFixed(2);
  const paths = { cool: '', warm: '', hot: '', base: '', mark: mark === undefined ? '' : `M0 ${y(mark)}H${width}` };
  values.forEach((v, i) => {
    const left = i * step + gap, right = (i + 1) * step - gap;
    paths[kind(v)] += `M${left} ${y(0)}V${y(v)}H${right}V${y(0)}Z`;
    paths.base += `M${left} ${y(0)}H${right}`; // a shard without a bar shows that it is there
  });
  draw(svg, width, height, paths);
}
