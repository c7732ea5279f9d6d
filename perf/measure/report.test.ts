import assert from 'node:assert/strict';
import type { Figure } from './figure.ts';
import { fromFile, markdown } from './report.ts';
import type { ResultsFile } from './results.ts';

const MACHINE = {
  date: '2026-11-21T19:58:43.920Z',
  cpu: 'Slow Processor',
  cores: 2,
  memory: 25,
  kernel: '6.1',
  nft: 'v1.0.6',
  node: 'v24',
  revision: '9660bb0766b1',
  dirty: false,
};
const FIGURE = {
  what: 'one thing',
  unit: 's',
  target: { at: 'most', value: 1 },
  summary: { median: 0.5, min: 0.4, max: 0.6, trials: 3 },
  values: [0.4, 0.5, 0.6],
  note: '',
  point: null,
} as const satisfies Figure;

describe('results of benchmarks', () => {
  const benchmark = (name: string, parts: object) => ({
    name,
    title: name,
    how: '',
    load: [0, 0],
    seconds: 1,
    figures: [{ ...FIGURE, what: name }],
    ...parts,
  });
  const file: ResultsFile = {
    machine: MACHINE,
    quick: false,
    benchmarks: [
      benchmark('with-all', {}),
      benchmark('later', { at: '2026-11-22 09:17 UTC, revision 7bc3a7cb64db' }),
      benchmark('elsewhere', { at: '2026-11-23 01:02 UTC, revision a55356b0312c', machine: '8 × Fast' }),
    ],
  };
  const known = file.benchmarks.map(({ name, title, how }) => ({ name, title, how, run: async () => [] }));
  const text = markdown({ machine: MACHINE, measured: fromFile(file, known), quick: false });

  it('give each target the day and the revision of its own measurement', () => {
    const rows = text.split('\n').filter((line) => line.startsWith('| ') && line.includes('≤ 1 s'));
    assert.deepEqual(
      rows.filter((line) => line.includes('20')).map((line) => line.split(' | ').at(-1)),
      ['2026-11-21, 9660bb07 |', '2026-11-22, 7bc3a7cb |', '2026-11-23, a55356b0 |'],
    );
  });

  it('name the machine of each benchmark, or say that none was recorded', () => {
    assert.match(text, /2026-11-21 19:58 UTC, revision 9660bb0766b1; 2 × Slow Processor, 25 GB; kernel 6\.1/);
    assert.match(text, /revision 7bc3a7cb64db; the machine was not recorded/);
    assert.match(text, /revision a55356b0312c; 8 × Fast\. Load/);
  });
});
