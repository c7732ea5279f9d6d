import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { allFlows } from '../../apis/node-flows.ts';
import { MOST_ANSWER } from '../../apis/node-question.ts';
import { snapshotText } from '../../apis/wire.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { nodeState } from '../../test/fake/node-state.ts';
import { policy, tcp } from '../../test/kernel/manifests.ts';
import { BOUNDS, FlowInventory, type FlowSource } from '../flows/flow-inventory.ts';
import {
  type FlowFilterOptions,
  fromFlowQuery,
  isKindKey,
  type SeenFlow,
  toFlowFilter,
  toFlowQuery,
} from '../flows/flow-kind.ts';
import { nodeFlows } from './explanation.ts';

const NOW = Date.parse('2026-01-08T00:00:00Z');
const HOUR = 3_600_000;
const POLICY = policy('web', {
  ingress: [
    { name: 'close', action: 'Drop', ports: [tcp(80)] },
    { name: 'ssh', action: 'Allow', ports: [tcp(22)] },
  ],
});

describe('the kinds of flows of a node', () => {
  let stateDir: string;
  let inventory: FlowInventory;
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'nodewall-flows-'));
    inventory = new FlowInventory(NOW - 7 * 24 * HOUR);
  });
  afterEach(() => rm(stateDir, { recursive: true }));

  function see(changes: Partial<SeenFlow>, ago = 0, live = 0): void {
    const flow: SeenFlow = {
      direction: 'ingress',
      traffic: 'Host',
      verdict: 'Allow',
      protocol: 6,
      group: 0,
      peer: '198.51.100.1',
      port: 22,
      type: null,
      code: null,
      local: '192.0.2.1',
      srcPort: 40_000,
      originalDst: null,
      originalPort: null,
      ...changes,
    };
    const kind = inventory.kindOf(flow, NOW - ago);
    inventory.seen(kind, flow, { now: NOW - ago, connections: 1 });
    kind.live = live;
  }

  async function ask(options: FlowFilterOptions = {}) {
    const filter = toFlowFilter(fromFlowQuery(toFlowQuery(options)), NOW);
    return await nodeFlows(stateDir, DEFAULT_CONFIG, filter, source(inventory));
  }

  const source = (of: FlowInventory): FlowSource => ({
    inventory: of,
    node: 'n',
    read: async () => NOW,
    lastRead: () => NOW,
  });

  const enforce = () => stateFile(stateDir, 'node-state.jsonl').write(snapshotText()(nodeState(POLICY)));

  it('have what the rules in force decide, last seen first', async () => {
    await enforce();
    see({ port: 80 }, 3 * HOUR, 1);
    see({ verdict: 'Drop' }, 2 * HOUR);
    see({ direction: 'egress', peer: '2001:db8::1', group: 8 }, HOUR);
    const { node, since, liveAt, flows, isCut, kinds } = await ask();
    assert.deepEqual(
      [node, since, liveAt, isCut, kinds],
      ['n', '2026-01-01T00:00:00Z', '2026-01-08T00:00:00Z', false, 3],
    );
    assert.deepEqual(
      flows.map((one) => {
        const { peer, interfaceGroup, verdict, decision, live } = one;
        return [peer, interfaceGroup, verdict, decision?.verdict, decision?.rule, decision?.reason, live];
      }),
      [
        ['2001:db8::1', 'pods', 'Allow', 'Allow', null, 'exempt', 0],
        ['198.51.100.1', undefined, 'Drop', 'Allow', 'ssh', 'rule', 0],
        ['198.51.100.1', undefined, 'Allow', 'Drop', 'close', 'rule', 1],
      ],
    );
    assert.equal(flows[0]?.lastSeen, '2026-01-07T23:00:00Z');
  });

  it('are decided with the control plane as the agent reaches it, which the answer has', async () => {
    const closed = policy('all', { egress: [{ name: 'close', action: 'Drop' }] });
    await stateFile(stateDir, 'node-state.jsonl').write(snapshotText()(nodeState(closed)));
    see({ direction: 'egress', port: 8443 });
    const controlPlane = [{ protocol: 'tcp', ports: [8443, 8443], peers: 'any' }] as const;
    const filter = toFlowFilter({}, NOW);
    const [without, withIt] = [
      await ask(),
      await nodeFlows(stateDir, DEFAULT_CONFIG, filter, { ...source(inventory), controlPlane }),
    ];
    assert.deepEqual([without.flows[0]?.decision?.verdict, without.controlPlane], ['Drop', undefined]);
    assert.deepEqual([withIt.flows[0]?.decision?.reason, withIt.controlPlane], ['failsafe', controlPlane]);
  });

  it('are chosen by each filter, and refuse what is none', async () => {
    await enforce();
    see({ port: 80 }, 3 * HOUR, 1);
    see({ protocol: 17, port: 53, peer: '203.0.113.1' }, 2 * HOUR);
    see({ direction: 'egress', port: 443 }, HOUR);
    see({ port: 22, verdict: 'Drop' });
    const ports = async (options: FlowFilterOptions) => (await ask(options)).flows.map(({ port }) => port);
    assert.deepEqual(await ports({ direction: 'egress' }), [443]);
    assert.deepEqual(await ports({ peer: '203.0.113.0/24' }), [53]);
    assert.deepEqual(await ports({ port: '443' }), [443]);
    assert.deepEqual(await ports({ protocol: 'udp' }), [53]);
    assert.deepEqual(await ports({ protocol: '17' }), [53]);
    assert.deepEqual(await ports({ since: '90m' }), [22, 443]);
    assert.deepEqual(await ports({ policy: 'web' }), [22, 80]);
    assert.deepEqual(await ports({ denied: true }), [22, 80]);
    assert.deepEqual(await ports({ live: true }), [80]);
    assert.deepEqual(await ports({ src: '203.0.113.0/24' }), [53]);
    assert.deepEqual(await ports({ src: '192.0.2.1', dst: '198.51.100.1' }), [443], 'the Node begins it');
    assert.deepEqual(await ports({ dst: '192.0.2.0/24', port: '80' }), [80]);
    assert.deepEqual(await ports({ traffic: 'NodePort' }), []);
    const { flows, isCut } = await ask({ lines: '2' });
    assert.deepEqual([flows.length, isCut], [2, true]);
    for (const query of ['port=x', 'protocol=300', 'direction=in', 'peer=x', 'since=x', 'srcPort=1', 'src=x'])
      assert.throws(
        () => toFlowFilter(fromFlowQuery(new URLSearchParams(query)), NOW),
        (error) => error instanceof CommandError && error.status === EXIT.usage,
        query,
      );
  });

  it('are chosen by type and code of ICMP, and by type of IGMP', async () => {
    see({ protocol: 1, port: null, type: 8, code: 0 });
    see({ protocol: 58, port: null, type: 8, code: 1, peer: 'fd00::1' });
    see({ protocol: 2, port: null, type: 8, peer: '198.51.100.2' });
    const protocols = async (options: FlowFilterOptions) =>
      (await ask(options)).flows.map(({ protocol }) => protocol).sort();
    assert.deepEqual(await protocols({ icmpType: '8' }), ['icmp', 'icmpv6']);
    assert.deepEqual(await protocols({ icmpType: '8', icmpCode: '1' }), ['icmpv6']);
    assert.deepEqual(await protocols({ igmpType: '8' }), ['igmp']);
    assert.deepEqual(await protocols({ icmpType: '128' }), []);
  });

  it('are found by an address or a port that a folded kind stands for', async () => {
    inventory = new FlowInventory(NOW - HOUR, { ...BOUNDS, peers: 1, ports: 1 });
    for (const peer of ['10.0.0.1', '10.0.1.1']) see({ peer }, HOUR);
    for (const port of [1, 2]) see({ peer: '10.0.0.1', port });
    const found = async (options: FlowFilterOptions) =>
      (await ask(options)).flows.map(({ peer, port }) => `${peer} ${port ?? 'all'}`);
    assert.deepEqual(await found({ peer: '10.0.1.77' }), ['10.0.1.0/24 22']);
    assert.deepEqual(await found({ port: '4711' }), ['10.0.0.1 all']);
    assert.deepEqual((await found({ since: '1h' })).length, 3, 'at the second itself');
  });

  it('are of the last 7 days, however long the agent runs', async () => {
    const sinceOf = async (begin: number): Promise<string> => {
      inventory = new FlowInventory(begin);
      return (await ask()).since;
    };
    assert.equal(await sinceOf(NOW - 30 * 24 * HOUR), '2026-01-01T00:00:00Z');
    assert.equal(await sinceOf(NOW - HOUR), '2026-01-07T23:00:00Z');
    assert.equal(await sinceOf(NOW + HOUR), '2026-01-08T00:00:00Z', 'the clock was set back');
  });

  it('have no decision where nothing was ever enforced', async () => {
    see({});
    assert.equal((await ask()).flows[0]?.decision, null);
  });

  it('fit into an answer, and name an example of what is folded', async () => {
    await enforce();
    inventory = new FlowInventory(NOW, { ...BOUNDS, newcomers: 10_000, ports: 2_000 });
    for (let i = 0; i < 5_000; i++)
      see({ peer: `2001:db8:${(i >> 8).toString(16)}::${i & 255}`, port: 1 + (i % 7) });
    const answer = await ask({ lines: '1500' });
    assert.ok(answer.isCut && answer.flows.length > 1_000, `${answer.flows.length} kinds`);
    assert.ok(Buffer.byteLength(JSON.stringify(JSON.stringify(answer))) < MOST_ANSWER);
    const folded = answer.flows.find(({ peer }) => peer.includes('/'));
    assert.match(String(folded?.flow.src), /^2001:db8:/);
    assert.equal(folded?.flow.dstPort, folded?.port);
  });

  it('are read in pages, all of them once, while others are added, seen and forgotten', async () => {
    await enforce();
    inventory = new FlowInventory(NOW - 7 * 24 * HOUR, { ...BOUNDS, newcomers: 10_000, peers: 10_000 });
    for (let i = 0; i < 5_000; i++) see({ peer: `10.0.${i >> 8}.${i & 255}` }, i);
    const before = inventory.kinds().map(({ peer }) => peer);
    let [pages, reads] = [0, 0];
    const found = await allFlows(async (query) => {
      pages++;
      // Seen again, with many new ones between them, and some that are not seen for too long.
      for (let i = 0; i < 5_000; i += 3) see({ peer: `10.0.${i >> 8}.${i & 255}` }, -pages);
      for (let i = 0; i < 100; i++) see({ peer: `10.0.${i}.${pages}`, port: 1 + i }, -pages);
      for (let i = 0; i < 20; i++) see({ peer: `10.0.0.${i}`, port: 2_000 + pages }, 8 * 24 * HOUR);
      inventory.expire(NOW);
      const filter = toFlowFilter(fromFlowQuery(query), NOW);
      const counted = { ...source(inventory), read: async () => NOW + ++reads };
      return await nodeFlows(stateDir, DEFAULT_CONFIG, filter, counted);
    });
    assert.ok(pages >= 4, `${pages} pages`);
    assert.deepEqual(
      [reads, found.isCut, found.continue, found.kinds],
      [1, false, undefined, inventory.size],
    );
    const keys = found.flows.map(({ peer, port }) => `${peer} ${port}`);
    assert.equal(new Set(keys).size, keys.length, 'none is there twice');
    const missing = before.filter((peer) => !keys.includes(`${peer} 22`));
    assert.deepEqual(missing, [], 'none is lost');
  });

  it('have no page after the last, and none for a token that is none', async () => {
    see({});
    assert.deepEqual((await ask({ continue: '' })).flows.length, 1);
    const [{ key } = { key: '' }] = inventory.kinds();
    assert.deepEqual((await ask({ continue: key })).flows, []);
    await assert.rejects(ask({ continue: 'x' }), /continue: "x": must be that of the page before/);
    const endless = { ...(await ask()), continue: key };
    let asked = 0;
    await assert.rejects(
      allFlows(async () => {
        asked++;
        return endless;
      }),
      /the pages of its flow inventory have no end/,
    );
    assert.equal(asked, 2, 'the same page again ends it');
  });

  it('have keys that a question can name, of every protocol and fold', () => {
    inventory = new FlowInventory(NOW, { ...BOUNDS, peers: 1, networks: 1, ports: 1 });
    for (const protocol of [1, 6, 58, 132, 253])
      for (const peer of [
        '10.0.0.1',
        '10.0.0.2',
        '10.0.1.1',
        '::ffff:1.2.3.4',
        'fd00:1111:2222:3333:4444:5555:6666:7777',
      ])
        for (const port of [null, 1, 65_535])
          see({
            protocol,
            peer,
            port,
            type: port === null ? null : 8,
            group: 4_294_967_295,
            verdict: 'Reject',
          });
    const keys = inventory.kinds().map(({ key }) => key);
    assert.ok(keys.some((key) => key.includes('*')) && keys.some((key) => key.includes('/')));
    assert.deepEqual(
      keys.filter((key) => !isKindKey(key)),
      [],
    );
  });
});
