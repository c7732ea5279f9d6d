/**
 * What others do to our table is undone; what others own is left alone. drift-iptables.test.ts is
 * the same of iptables.
 */
import assert from 'node:assert/strict';
import { NFTABLES } from './dataplane.ts';
import { type DriftBed, driftBed } from './drift-bed.ts';
import { kernelSuite } from './kernel-suite.ts';

kernelSuite('drift', () => {
  let bed: DriftBed;
  before(async () => {
    bed = await driftBed(NFTABLES, '4321');
  });
  after(() => bed?.node.close());
  afterEach(() => bed.assertOthersLeftAlone());

  async function assertRepaired(command: string): Promise<void> {
    await bed.node.nft(command);
    await bed.untilRepaired(command);
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
    const { stdout } = await bed.node.topology.node.run([
      'nft',
      '-j',
      '-a',
      'list',
      'table',
      'inet',
      'nodewall',
    ]);
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
