import assert from 'node:assert/strict';
import { chartSvg, gridOf } from './chart.ts';
import { figure } from './figure.ts';

const CHART = { name: 'rates', title: 'Rates & shares', x: 'rules', y: '%' };

describe('charts', () => {
  const at = (series: string, x: number | string, value: number) =>
    figure(`${series} ${x}`, '%', [value], { point: { chart: 'rates', series, x } });
  const figures = [
    at('nodewall', 100, 99),
    at('nodewall', 1000, 98),
    at('list', 100, 70),
    at('list', 1000, 20),
  ];

  it('a grid has a row for each x and a column for each series', () => {
    const grid = gridOf(CHART, [...figures, figure('no point', '%', [1])]);
    assert.deepEqual(
      [grid.xs, grid.series],
      [
        [100, 1000],
        ['nodewall', 'list'],
      ],
    );
    assert.equal(grid.at(1000, 'list')?.summary.median, 20);
  });

  it('an SVG document, the same each time, with its words in it', () => {
    const svg = chartSvg(CHART, figures);
    assert.match(svg, /^<svg /);
    for (const word of ['Rates &amp; shares', 'nodewall', '1,000']) assert.ok(svg.includes(word), word);
    assert.equal(chartSvg(CHART, figures), svg);
    assert.match(chartSvg(CHART, [at('nodewall', 'acl', 99)]), /acl/);
  });
});
