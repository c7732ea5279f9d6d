import assert from 'node:assert/strict';
import { CONNECTION_COMBINATIONS } from './connections.ts';
import { KERNELS, MATRIX_SUITES } from './matrix.ts';
import { compatibilityPage } from './page.ts';
import {
  type Cell,
  CLUSTER_RESULTS,
  type ClusterCell,
  CONNECTION_RESULTS,
  type ConnectionCell,
  KERNEL_RESULTS,
  SUITE_RESULTS,
  type SuiteCell,
} from './results.ts';

const CELL: Cell = {
  kernel: 'bookworm',
  suite: 'demo',
  result: 'passed',
  release: '6.1.0-50-amd64',
  guest: 'emulated',
  date: '2026-11-30',
  revision: '61f3259c',
  passed: 1,
  failed: 0,
  skipped: 0,
  failures: [],
  skips: [],
};

const CLUSTER: ClusterCell = {
  kubernetes: '1.36',
  containerd: '2',
  suite: 'stories',
  node: 'Kubernetes 1.36.3, containerd 2.4.2, Linux 6.18.1',
  result: 'failed',
  date: '2026-11-30',
  revision: '61f3259c',
  passed: 30,
  failed: 1,
  skipped: 0,
  failures: ['without power it follows'],
  skips: [],
};

const CONNECTIONS: ConnectionCell = {
  network: 'ptp',
  proxy: 'iptables',
  dataplane: 'iptables',
  node: CLUSTER.node,
  result: 'failed',
  date: '2026-11-30',
  revision: '61f3259c',
  passed: 1847,
  failed: 1,
  skipped: 0,
  failures: ['office to NodePort'],
  skips: [],
};

const SUITE: SuiteCell = {
  suite: "Kubernetes' tests",
  dataplane: 'iptables',
  node: CLUSTER.node ?? '',
  result: 'failed',
  date: '2026-12-01',
  revision: '61f3259c',
  passed: 80,
  failed: 1,
  skipped: 0,
  failures: ['[sig-network] Services'],
  failWithout: ['[sig-network] DNS'],
  skips: [],
};

const NONE = { cells: [], clusters: [], connections: [], suites: [] };

const rowOf = (page: string, suite: string): string =>
  page.split('\n').find((line) => line.startsWith(`| **${suite}**`)) ?? '';

describe('docs/compatibility.md', () => {
  it('says of each cell when it was run, at which revision and how, or that it was not', () => {
    const row = rowOf(compatibilityPage({ ...NONE, cells: [CELL] }), 'demo');
    const cells = row.replace(/ \|$/, '').split(' | ').slice(1);
    assert.deepEqual(
      cells,
      KERNELS.map(({ name }) =>
        name === CELL.kernel ? '1 passed<br>2026-11-30, 61f3259c, emulated' : 'not run',
      ),
    );
    const none = compatibilityPage(NONE);
    for (const { name } of MATRIX_SUITES)
      assert.equal(rowOf(none, name).split('not run').length, KERNELS.length + 1, name);
  });

  it('names what failed, what did not end, and why tests were skipped', () => {
    const page = compatibilityPage({
      ...NONE,
      cells: [
        { ...CELL, result: 'failed', passed: 2, failed: 1, failures: ['a | b\nc'] },
        { ...CELL, kernel: 'sid', release: '7.1', result: 'unfinished', passed: 0, failures: ['late'] },
        { ...CELL, suite: 'verdicts', skipped: 3, skips: ['no IPVS'] },
        { ...CELL, suite: 'verdicts', kernel: 'sid', release: '7.1', skipped: 3, skips: ['no IPVS'] },
      ],
    });
    assert.match(rowOf(page, 'demo'), /\| 2 passed, \*\*1 failed\*\*<br>.* \| \*\*did not end\*\*<br>/);
    assert.match(page, /^\| demo \| 6\.1\.0-50-amd64 \| a \\\| b c \|\n\| demo \| 7\.1 \| late \|$/m);
    assert.match(page, /^\| verdicts \| 6\.1\.0-50-amd64, 7\.1 \| no IPVS \|$/m);
  });

  it('has a row for each version of Kubernetes, with what the cluster was and what failed there', () => {
    const page = compatibilityPage({ ...NONE, clusters: [CLUSTER] });
    const rows = page.split('\n').filter((line) => line.startsWith('| Kubernetes '));
    assert.deepEqual(rows, [
      ...['1.34', '1.35'].map((name) => `| Kubernetes ${name} | not run | not run | not run |`),
      `| Kubernetes 1.36 | not run | not run | ${CLUSTER.node}<br>30 passed, **1 failed**<br>2026-11-30, 61f3259c |`,
      '| Kubernetes 1.37 | not run | not run | not run |',
    ]);
    assert.match(page, /^\| stories \| Kubernetes 1\.36, containerd 2 \| without power it follows \|$/m);
  });

  it('has a row for each combination of network, proxy and dataplane', () => {
    const page = compatibilityPage({ ...NONE, connections: [CONNECTIONS] });
    const rows = page.split('\n').filter((line) => /\| (kube-proxy, \w+|none) \|/.test(line));
    assert.equal(rows.length, CONNECTION_COMBINATIONS.length);
    const run = rows.filter((line) => !line.endsWith('| not run |'));
    assert.deepEqual(run, [
      '| ptp | kube-proxy, iptables | iptables | 1847 passed, **1 failed**<br>2026-11-30, 61f3259c |',
    ]);
    assert.match(page, /^\| ptp, iptables, iptables \| office to NodePort \|$/m);
  });

  it('has the tests of others, with those that fail without nodewall too', () => {
    const page = compatibilityPage({ ...NONE, suites: [SUITE] });
    assert.match(
      page,
      /^\| Kubernetes' tests \| .* \| iptables \| 80 passed, \*\*1 failed\*\*<br>2026-12-01, 61f3259c \|$/m,
    );
    assert.match(
      page,
      /^\| fails with iptables alone \| .*Services \|\n\| fails without nodewall \| .*DNS \|$/m,
    );
  });

  it('has results of its own matrix alone', () => {
    for (const results of [KERNEL_RESULTS, CLUSTER_RESULTS, CONNECTION_RESULTS, SUITE_RESULTS])
      assert.deepEqual(results.ofTable(), results.read());
  });
});

describe('a result', () => {
  it('takes the place of the one before, and leaves the other cells', () => {
    const other = { ...CELL, suite: 'boot' };
    const older = { ...CELL, kernel: 'bullseye' };
    const newer = { ...CELL, date: '2026-12-01' };
    const removed = { ...CELL, suite: 'no longer there' };
    assert.deepEqual(KERNEL_RESULTS.merge([other, removed, CELL, older], newer), [older, newer, other]);
  });

  it('of a cluster does so too', () => {
    const other = { ...CLUSTER, kubernetes: '1.35' };
    const removed = { ...CLUSTER, kubernetes: '1.0' };
    const newer = { ...CLUSTER, date: '2026-12-01' };
    assert.deepEqual(CLUSTER_RESULTS.merge([CLUSTER, removed, other], newer), [other, newer]);
  });

  it('of connections does so too', () => {
    const other = { ...CONNECTIONS, network: 'bridge' } as const;
    const removed = { ...CONNECTIONS, proxy: 'none', dataplane: 'nftables' } as const;
    const newer = { ...CONNECTIONS, date: '2026-12-01' };
    assert.deepEqual(CONNECTION_RESULTS.merge([CONNECTIONS, removed, other], newer), [other, newer]);
  });
});
