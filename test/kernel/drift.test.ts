/**
 * What others do to our table is undone; what others own is left alone. drift-iptables.test.ts is
 * the same of iptables.
 */
import assert from 'node:assert/strict';
import { NFTABLES } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { type ForeignRules, installForeignRules } from './foreign-rules.ts';
import { kernelSuite } from './kernel-suite.ts';
import { untilRepaired } from './repaired.ts';
import { pause } from './until.ts';
import { variousRules } from './various-rules.ts';

kernelSuite('drift', () => {
  let node: EnforcedNode;
  let agent: RunningAgent;
  let rules: string;
  let foreign: ForeignRules;
  let others: string;
  before(async () => {
    node = await createEnforcedNode();
    foreign = await installForeignRules(node.topology.node, [NFTABLES]);
    others = await foreign.list();
    await node.write('policy.json', [variousRules()]);
    agent = node.start();
    await node.untilEnforced('4321', agent);
    await pause(500);
    rules = await node.rules();
  });
  after(() => node?.close());
  afterEach(async () => {
    assert.equal(await foreign.list(), others, 'another table was touched');
  });

  async function assertRepaired(command: string): Promise<void> {
    await node.nft(command);
    await untilRepaired(command, node, { rules, agent, limit: NFTABLES.repairs });
  }

  it('a deleted rule, of every chain', async () => {
    const first = new Map<string, Item>();
    for (const item of await listItems('rule'))
      if (!first.has(String(item.chain))) first.set(String(item.chain), item);
    assert(first.size > 1);
    // Names may change with a repair: each is looked up again.
    for (const name of first.keys()) {
      const rule = (await listItems('rule')).find(({ chain }) => chain === name);
      if (rule) await assertRepaired(`delete rule inet nodewall ${name} handle ${rule.handle}\n`);
    }
  });

  it('a flushed chain', async () => {
    const chain = (await listItems('chain')).find(({ hook }) => hook === 'input');
    assert(chain);
    await assertRepaired(`flush chain inet nodewall ${chain.name}\n`);
  });

  it('a deleted table', () => assertRepaired('delete table inet nodewall\n'));

  it('a flushed table', () => assertRepaired('flush table inet nodewall\n'));

  it('a rule added in front', async () => {
    const chain = (await listItems('chain')).find(({ hook }) => hook === 'input');
    assert(chain);
    await assertRepaired(`insert rule inet nodewall ${chain.name} accept\n`);
  });

  it('an added and a deleted set element', async () => {
    const set = (await listItems('set')).find(({ type, elem }) => type === 'ipv4_addr' && elem !== undefined);
    assert(set, 'no set of IPv4 addresses');
    await assertRepaired(`add element inet nodewall ${set.name} { 203.0.113.77 }\n`);
    const again = (await listItems('set')).find(
      ({ type, elem }) => type === 'ipv4_addr' && elem !== undefined,
    );
    assert(again);
    await assertRepaired(`delete element inet nodewall ${again.name} { ${toText(again.elem?.[0])} }\n`);
  });

  it('a flushed map', async () => {
    const map = (await listItems('map')).find(({ elem }) => elem !== undefined);
    if (map) await assertRepaired(`flush map inet nodewall ${map.name}\n`);
  });

  it("a foreign chain in nodewall's table, hooked or not", async () => {
    await assertRepaired('add chain inet nodewall stranger\nadd rule inet nodewall stranger drop\n');
    await assertRepaired(
      'add chain inet nodewall stranger { type filter hook input priority 50; }\nadd rule inet nodewall stranger drop\n',
    );
    await assertRepaired('add set inet nodewall stranger { type ipv4_addr; elements = { 192.0.2.1 }; }\n');
  });

  interface Item {
    readonly name: string;
    readonly handle: number;
    readonly chain?: string;
    readonly hook?: string;
    readonly type?: unknown;
    readonly elem?: readonly unknown[];
  }

  async function listItems(kind: 'rule' | 'chain' | 'set' | 'map'): Promise<Item[]> {
    const { stdout } = await node.topology.node.run(['nft', '-j', '-a', 'list', 'table', 'inet', 'nodewall']);
    const { nftables }: { nftables: Record<string, Item>[] } = JSON.parse(stdout);
    return nftables.flatMap((entry) => entry[kind] ?? []);
  }
});

/** An element of a set of addresses as nft writes it: plain, a prefix, or a range. */
function toText(element: unknown): string {
  if (typeof element === 'string') return element;
  const { prefix, range, elem } = element as {
    prefix?: { addr: string; len: number };
    range?: [string, string];
    elem?: { val: unknown };
  };
  if (prefix) return `${prefix.addr}/${prefix.len}`;
  if (range) return range.join('-');
  return toText(elem?.val);
}
