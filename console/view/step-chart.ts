import { svg, type TemplateResult } from 'lit';

/** A chart's own units; the page scales it. */
const WIDTH = 960;
const HEIGHT = 120;
const BASE = 100;

interface Steps {
  /** Oldest first; the last one is still being filled. */
  readonly values: readonly number[];
  /** How many steps the axis has; values before those that there are were not counted. */
  readonly count: number;
  /** Under the axis, at its share of the width from 0 to 1. */
  readonly labels: readonly { readonly at: number; readonly text: string }[];
  /** A bar's text, for a pointer. */
  readonly title: (index: number, value: number) => string;
  /** For those who do not see it. */
  readonly label: string;
}

/**
 * Bars of steps of time, with the highest value beside its line. Drawn by the page itself, so that
 * it follows the colours of the page and needs no exception from the Content-Security-Policy.
 */
export function stepChart({ values, count, labels, title, label }: Steps): TemplateResult {
  const top = Math.max(1, ...values);
  const width = WIDTH / count;
  const offset = count - values.length;
  return svg`<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label=${label}>
    <line class="axis" x1="0" x2=${WIDTH} y1=${BASE} y2=${BASE}></line>
    ${values.map((value, i) => {
      const height = value === 0 ? 0 : Math.max(1, (value / top) * (BASE - 8));
      const x = (offset + i) * width;
      return svg`<rect class="bar" x=${x} y=${BASE - height} width=${Math.max(1, width - 0.6)} height=${height}>
        <title>${title(i, value)}</title>
      </rect>`;
    })}
    ${labels.map(
      ({ at, text }) =>
        svg`<text x=${Math.round(at * WIDTH)} y=${HEIGHT - 4} text-anchor="middle">${text}</text>`,
    )}
  </svg>` as TemplateResult;
}

/** A small picture beside the numbers that it is of, which are text. */
export function sparkline(values: readonly number[], count: number): TemplateResult {
  const top = Math.max(1, ...values);
  // Many steps have a few pixels each: the highest of each group.
  const columns = 60;
  const size = Math.ceil(count / columns);
  const padded = [...Array.from({ length: Math.max(0, count - values.length) }, () => 0), ...values];
  const heights = Array.from({ length: Math.ceil(padded.length / size) }, (_, i) =>
    Math.max(0, ...padded.slice(i * size, (i + 1) * size)),
  );
  const path = heights
    .map((value, i) => (value === 0 ? '' : `M${2 * i + 1} 18V${(17 - (16 * value) / top).toFixed(1)}`))
    .join('');
  return svg`<svg class="spark" viewBox="0 0 ${2 * heights.length} 18" width="120" height="18" aria-hidden="true">
    <path d=${path}></path>
  </svg>` as TemplateResult;
}
