// Charts of one or a few SVG paths each, however many points there are.

const namespace = 'http://www.w3.org/2000/svg';

function path(svg, name) {
  let p = svg.querySelector(`.${name}`);
  if (!p) {
    p = document.createElementNS(namespace, 'path');
    p.setAttribute('class', name);
    p.setAttribute('vector-effect', 'non-scaling-stroke');
    svg.append(p);
  }
  return p;
}

function size(svg, width, height) {
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
}

/**
 * Draws points [time, value] from one time to another as steps: each value holds until the next. The scale is that of the points,
 * and begins at 0 with fromZero. Of fewer than two points nothing is drawn.
 */
export function steps(svg, points, from, to, fromZero) {
  const width = 300, height = 60, edge = 2;
  size(svg, width, height);
  if (points.length < 2) {
    path(svg, 'area').setAttribute('d', '');
    path(svg, 'line').setAttribute('d', '');
    return;
  }
  const seen = points.filter(([t], i) => t >= from || points[i + 1]?.[0] > from || i === points.length - 1);
  const values = seen.map(([, v]) => v);
  let low = Math.min(...values), high = Math.max(...values);
  if (fromZero) {
    low = Math.min(0, low);
    high = Math.max(0, high);
  }
  const flat = high === low;
  const x = (t) => ((Math.min(Math.max(t, from), to) - from) / (to - from)) * width;
  const y = (v) => height - edge - (flat ? (fromZero ? 0 : 0.5) : (v - low) / (high - low)) * (height - 2 * edge);
  let d = `M${x(seen[0][0]).toFixed(1)} ${y(seen[0][1]).toFixed(1)}`;
  for (const [t, v] of seen.slice(1)) d += `H${x(t).toFixed(1)}V${y(v).toFixed(1)}`;
  d += `H${width}`;
  path(svg, 'area').setAttribute('d', `${d}V${height}H${x(seen[0][0]).toFixed(1)}Z`);
  path(svg, 'line').setAttribute('d', d);
}

/**
 * Draws a bar for each value up from 0, or down if it is below, and a line at mark unless that is undefined. kind names the class
 * of each bar.
 */
export function bars(svg, values, kind, mark) {
  const height = 80, step = 10, gap = values.length > 150 ? 0 : 1.5;
  const width = Math.max(step, values.length * step);
  size(svg, width, height);
  const high = Math.max(mark === undefined ? 0 : mark * 1.25, ...values), low = Math.min(0, ...values);
  const y = (v) => height - (high === low ? 0 : (v - low) / (high - low)) * height;
  const drawn = { cool: '', warm: '', hot: '', base: '' };
  values.forEach((v, i) => {
    const top = y(Math.max(v, 0)), bottom = y(Math.min(v, 0));
    drawn[kind(v)] += `M${i * step + gap} ${bottom.toFixed(2)}V${top.toFixed(2)}H${(i + 1) * step - gap}V${bottom.toFixed(2)}Z`;
    drawn.base += `M${i * step + gap} ${y(0).toFixed(2)}H${(i + 1) * step - gap}`; // a shard without a bar shows that it is there
  });
  for (const [name, d] of Object.entries(drawn)) path(svg, name).setAttribute('d', d);
  if (mark !== undefined) path(svg, 'mark').setAttribute('d', `M0 ${y(mark).toFixed(2)}H${width}`);
}
