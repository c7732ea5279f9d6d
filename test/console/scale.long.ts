import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { ROOT } from '../structure/source-file.ts';
import { sampleDocuments } from './fake-console.ts';
import { type OpenPage, PageBed } from './page-bed.ts';
import { sampleOverview, samplePolicy } from './sample-cluster.ts';

const SIZE = { nodes: 500, policies: 100 };
const TRIALS = 10;
/** Bytes. */
const MOST_COMPRESSED = 300_000;
/** Milliseconds; the aims are 1,000 and 500, this machine may be busy with other things. */
const LONGEST = { paint: 4_000, change: 2_000 };

describe('the console with 500 nodes and 100 policies', function () {
  this.timeout(120_000);
  let bed: PageBed;
  before(async function () {
    this.timeout(600_000);
    bed = await PageBed.start(sampleDocuments(SIZE));
  });
  after(() => bed?.close());

  it('has files of less than 300 kB, compressed', () => {
    const dist = join(ROOT, 'console/dist');
    const files = readdirSync(dist).filter((name) => name.endsWith('.gz'));
    const bytes = files.reduce((sum, name) => sum + statSync(join(dist, name)).size, 0);
    print(`all files with gzip: ${(bytes / 1000).toFixed(1)} kB`);
    assert.ok(files.length > 2 && bytes <= MOST_COMPRESSED, `${bytes}`);
  });

  it('is painted, with the rows of all policies', async () => {
    const paints: number[] = [];
    const rows: number[] = [];
    for (let i = 0; i < TRIALS; i++) {
      const { page, close } = await bed.open();
      rows.push(await page.evaluate<number>(ROWS_PAINTED));
      paints.push(
        await page.evaluate<number>(`performance.getEntriesByName('first-contentful-paint')[0].startTime`),
      );
      await close();
    }
    print(`first paint: ${spread(paints)}; with the rows of all policies: ${spread(rows)}`);
    assert.ok(median(rows) <= LONGEST.paint);
  });

  for (const view of ['policies', 'nodes', 'grid']) {
    it(`shows a change, view ${view}`, async () => {
      bed.fake.documents = sampleDocuments(SIZE);
      const { page, close } = await bed.open(`in-force?view=${view}`);
      await page.getByText('Live · cluster').waitFor();
      const times: number[] = [];
      for (let i = 0; i < TRIALS; i++) times.push(await changeSeen(page, 100 + i));
      print(`change seen, ${view}: ${spread(times)}`);
      assert.ok(median(times) <= LONGEST.change);
      await close();
    });
  }

  /** Milliseconds from the line that the server sends to the painted page. */
  async function changeSeen(page: Page, generation: number): Promise<number> {
    const policy = samplePolicy(4, SIZE.nodes);
    const problems = [
      { object: 'ClusterNetworkPolicy/changed', phase: 'Failed', message: `change ${generation}` },
    ];
    const seen = page.evaluate(seenText(`change ${generation}`));
    const start = performance.now();
    bed.fake.change({ policies: [{ ...policy, generation }], problems });
    await seen;
    return performance.now() - start;
  }

  it('needs no more memory after 3,000 changes', async () => {
    const overview = sampleOverview(SIZE);
    bed.fake.documents = { ...sampleDocuments(SIZE), overview };
    const open: OpenPage = await bed.open('in-force?view=grid');
    const { page, close } = open;
    const session = await page.context().newCDPSession(page);
    const heap = async (): Promise<number> => {
      await session.send('HeapProfiler.collectGarbage');
      return (await session.send('Runtime.getHeapUsage')).usedSize / 1e6;
    };
    const send = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i += 10) {
        for (let j = 0; j < 10; j++) {
          const policy = samplePolicy((i + j) % SIZE.policies, SIZE.nodes);
          bed.fake.change({ policies: [{ ...policy, message: `change ${i + j}` }] });
        }
        await page.evaluate('new Promise(requestAnimationFrame)');
      }
    };
    await send(500);
    const before = await heap();
    await send(3_000);
    const grown = (await heap()) - before;
    print(`heap after 500 changes: ${before.toFixed(1)} MB, after 3,000 more: ${grown.toFixed(1)} MB more`);
    assert.ok(grown < 3, `${grown} MB`);
    assert.deepEqual(await open.problems(), []);
    await close();
  });
});

function print(text: string): void {
  process.stdout.write(`      ${text}\n`);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

function spread(values: readonly number[]): string {
  const rounded = values.map(Math.round);
  return `median ${Math.round(median(values))} ms, ${Math.min(...rounded)} to ${Math.max(...rounded)}`;
}

/** Resolves with the page's time when 100 rows are there, and painted. */
const ROWS_PAINTED = `(async () => {
  const rows = () => document.querySelector('nodewall-console').shadowRoot.querySelector('in-force-page')
    ?.shadowRoot.querySelector('policy-list')?.shadowRoot.querySelectorAll('tbody tr').length ?? 0;
  while (rows() < 100) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now();
})()`;

/** Resolves in the frame after a problem with this message is on the page. */
function seenText(message: string): string {
  return `(async () => {
    const page = document.querySelector('nodewall-console').shadowRoot.querySelector('in-force-page');
    while (!page.shadowRoot.querySelector('.problems')?.textContent.includes(${JSON.stringify(message)}))
      await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  })()`;
}
