import assert from 'node:assert/strict';
import { stringify } from 'yaml';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import { until } from '../kernel/until.ts';
import { oracle } from '../oracle/oracle.ts';
import { OneController } from './one-controller.ts';

const OURS = 'nodewall.io/v1alpha1';
const CHANGES = Number(process.env.NODEWALL_CHANGES ?? 300);
const NODES = ['n1', 'n2', 'n3'];
/** No two addresses of a part of these are told apart by any object below. */
const BLOCKS = ['10.0.0.0/8', '10.1.0.0/16', '198.51.100.0/24', '203.0.113.0/24'] as const;
const SOURCES = ['10.9.9.9', '10.1.9.9', '198.51.100.9', '203.0.113.9', '8.8.8.8'];
const PORTS = [22, 23, 80, 9999] as const;

type Manifest = Readonly<Record<string, unknown>> & {
  readonly kind: string;
  readonly metadata: { readonly name: string };
};

const nodes = NODES.map((name, i) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { role: i === 0 ? 'cp' : 'worker' } },
  status: { addresses: [{ type: 'InternalIP', address: `192.0.2.${i + 1}` }] },
}));
const object = (kind: string, name: string, spec: object): Manifest => ({
  apiVersion: OURS,
  kind,
  metadata: { name },
  spec,
});

interface Required {
  readonly name: string;
  readonly verdict: 'Allow' | 'Drop';
  readonly nodes: readonly string[];
  readonly sources: readonly string[];
  readonly port: number;
}

/** What the Guardrails below demand, flow by flow. */
const REQUIRED: readonly Required[] = [
  { name: 'ssh', verdict: 'Allow', nodes: NODES, sources: ['10.9.9.9', '10.1.9.9'], port: 22 },
  { name: 'web', verdict: 'Allow', nodes: ['n2', 'n3'], sources: SOURCES, port: 80 },
  { name: 'telnet', verdict: 'Drop', nodes: NODES, sources: SOURCES, port: 23 },
];
const GUARDRAILS = [
  object('Guardrail', 'ssh', {
    nodeSelector: {},
    mustAllow: [{ direction: 'ingress', from: [{ ipBlock: { cidr: '10.0.0.0/8' } }], ports: [{ port: 22 }] }],
  }),
  object('Guardrail', 'web', {
    nodeSelector: { matchLabels: { role: 'worker' } },
    mustAllow: [{ direction: 'ingress', ports: [{ port: 80 }] }],
  }),
  object('Guardrail', 'telnet', {
    nodeSelector: {},
    mustDeny: [{ direction: 'ingress', ports: [{ port: 23 }] }],
  }),
];
const START = [
  object('ClusterGroup', 'friends', { ipBlocks: [{ cidr: '203.0.113.0/24' }] }),
  object('ClusterNetworkPolicy', 'no-telnet', {
    priority: 100,
    appliedTo: [{ nodeSelector: {} }],
    ingress: [{ name: 'r', action: 'Drop', ports: [{ port: 23 }] }],
  }),
];

/** The Guardrails that do not hold. */
function broken(objects: readonly Manifest[]): Set<string> {
  const found = new Set<string>();
  for (const node of NODES) {
    const judge = oracle({ objects: [...nodes, ...objects], node });
    for (const { name, verdict, nodes: selected, sources, port } of REQUIRED) {
      if (!selected.includes(node)) continue;
      for (const src of sources) {
        const flow = { direction: 'ingress', src, dst: `192.0.2.${NODES.indexOf(node) + 1}` } as const;
        const whole = {
          ...flow,
          protocol: 'tcp',
          srcPort: 40_000,
          dstPort: port,
          interfaceGroup: 0,
        } as const;
        if ((judge(whole).verdict === 'Allow') !== (verdict === 'Allow')) found.add(name);
      }
    }
  }
  return found;
}

interface Change {
  readonly next: readonly Manifest[];
  readonly applied: Manifest | null;
  readonly deleted: string | null;
}

function drawn(objects: readonly Manifest[], random: Random): Change {
  const own = objects.filter(({ kind }) => kind === 'ClusterNetworkPolicy');
  const [first, ...others] = own;
  if (random.next() < 0.2 && first !== undefined) {
    const gone = random.pick([first, ...others]);
    const next = objects.filter((one) => one !== gone);
    return { next, applied: null, deleted: `ncnp/${gone.metadata.name}` };
  }
  const block = () => ({ ipBlock: { cidr: random.pick(BLOCKS) } });
  const applied =
    random.next() < 0.2
      ? object('ClusterGroup', 'friends', { ipBlocks: [{ cidr: random.pick(BLOCKS) }] })
      : object('ClusterNetworkPolicy', random.pick(['a', 'b', 'c', 'no-telnet']), {
          priority: random.pick([5, 50, 150]),
          appliedTo: [{ nodeSelector: random.pick([{}, { matchLabels: { role: 'cp' } }]) }],
          ingress: Array.from({ length: 1 + random.below(2) }, (_, i) => ({
            name: `r${i}`,
            action: random.pick(['Allow', 'Drop', 'Drop', 'Reject']),
            from: random.pick([[], [block()], [{ group: 'friends' }]]),
            ports: [{ port: random.pick(PORTS) }],
          })),
        });
  const isSame = (one: Manifest): boolean =>
    one.kind === applied.kind && one.metadata.name === applied.metadata.name;
  return { next: [...objects.filter((one) => !isSame(one)), applied], applied, deleted: null };
}

describe('300 changes by kubectl, half of which break a Guardrail', function () {
  this.timeout(0);
  let bed: OneController;

  before(async () => {
    bed = await OneController.start();
    await bed.untilAsked();
    await bed.cluster.kubectl(['label', 'node', 'n1', 'role=cp', '--overwrite']);
    const all = [...START, ...GUARDRAILS].map((one) => stringify(one)).join('---\n');
    assert.equal((await bed.apply(all)).code, 0);
    for (const { name } of REQUIRED) await bed.phase(name, 'Holds');
  });
  after(() => bed?.close());

  async function compiles(): Promise<number> {
    const text = await bed.process.metrics();
    return Number(/^nodewall_controller_compile_duration_seconds_count (\d+)$/m.exec(text)?.[1] ?? 0);
  }

  it('refuses these, and no other', async () => {
    const seed = process.env.NODEWALL_SEED ?? `${Date.now()}`;
    const random = seededRandom(seed);
    let objects: readonly Manifest[] = START;
    const counts = { refused: 0, stored: 0 };
    for (let i = 0; i < CHANGES; i++) {
      const isBreaking = i % 2 === 0;
      let change = drawn(objects, random);
      for (let tries = 0; broken(change.next).size > 0 !== isBreaking && tries < 10_000; tries++)
        change = drawn(objects, random);
      const lost = broken(change.next);
      const before = await compiles();
      const { code, stderr } =
        change.applied === null
          ? await bed.cluster.kubectl(['delete', change.deleted ?? ''])
          : await bed.apply(stringify(change.applied));
      const what = `seed ${seed}, change ${i}: ${JSON.stringify(change)}\n${stderr}`;
      assert.equal(code !== 0, lost.size > 0, what);
      if (code !== 0) {
        const named = /would break Guardrail\/(\w+) on (n\d)/.exec(stderr)?.[1] ?? '';
        assert.ok(lost.has(named), what);
        counts.refused++;
        continue;
      }
      counts.stored++;
      const known = objects.map((one) => JSON.stringify(one));
      const isSame = change.applied !== null && known.includes(JSON.stringify(change.applied));
      objects = change.next;
      if (!isSame) await until('the controller has seen it', async () => (await compiles()) > before);
    }
    assert.deepEqual(counts, { refused: CHANGES / 2, stored: CHANGES / 2 });
    for (const { name } of REQUIRED) await bed.phase(name, 'Holds');
  });
});
