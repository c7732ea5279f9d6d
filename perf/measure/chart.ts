import { init } from 'echarts';
import type { Chart, Figure } from './figure.ts';

/**
 * What a chart shows, in rows by x and columns by series, both in the order in which the figures
 * come.
 */
interface Grid {
  readonly xs: readonly (number | string)[];
  readonly series: readonly string[];
  at(x: number | string, series: string): Figure | undefined;
}

export function gridOf(chart: Chart, figures: readonly Figure[]): Grid {
  const own = figures.filter(({ point }) => point?.chart === chart.name);
  const xs = [...new Set(own.flatMap(({ point }) => (point === null ? [] : [point.x])))];
  const series = [...new Set(own.flatMap(({ point }) => (point === null ? [] : [point.series])))];
  return { xs, series, at: (x, one) => own.find(({ point }) => point?.x === x && point.series === one) };
}

const SIZE = { width: 900, height: 480 } as const;
const FONT = 'Verdana, DejaVu Sans, sans-serif';

/** Medians as an SVG document: drawn without a browser, equal figures are equal bytes. */
export function chartSvg(chart: Chart, figures: readonly Figure[]): string {
  const { xs, series, at } = gridOf(chart, figures);
  const isSizes = xs.every((x) => typeof x === 'number');
  const drawing = init(null, null, { renderer: 'svg', ssr: true, ...SIZE });
  drawing.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    title: { text: chart.title, left: 'center', textStyle: { fontSize: 15 } },
    textStyle: { fontFamily: FONT },
    // Without a browser widths of texts are guessed, too small for wide fonts: hence the padding.
    legend: { bottom: 0, itemGap: 16, textStyle: { padding: [0, 28, 0, 0] }, data: [...series] },
    grid: { left: 90, right: 30, top: 50, bottom: 120 },
    xAxis: {
      type: 'category',
      name: chart.x,
      nameLocation: 'middle',
      nameGap: 32,
      data: xs.map((x) => (typeof x === 'number' ? x.toLocaleString('en') : x)),
      axisLabel: { interval: 0 },
    },
    yAxis: { type: 'value', name: chart.y, nameLocation: 'middle', nameGap: 55, min: 0 },
    series: series.map((name) => ({
      name,
      type: isSizes ? ('line' as const) : ('bar' as const),
      symbolSize: 7,
      data: xs.map((x) => at(x, name)?.summary.median ?? null),
    })),
  });
  const svg = drawing.renderToSVGString();
  drawing.dispose();
  // Identifiers count up over a process's charts.
  return `${withoutCounters(svg)}\n`;
}

function withoutCounters(svg: string): string {
  const found = new Map<string, string>();
  return svg.replaceAll(/zr\d+-[a-z]+-?\d+/g, (id) => {
    const name = found.get(id) ?? `id${found.size}`;
    found.set(id, name);
    return name;
  });
}
