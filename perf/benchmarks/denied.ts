/**
 * The cost of a denied packet. A sender costs more than a drop, and on a machine of two processors
 * it takes its time from the receiver; so there is none. perf/inject lets the kernel make packets
 * and receive them (XDP test runs with live frames: the packet is built and goes up the stack as
 * from a driver's poll), all in one system call. The processor time of that thread is the receive
 * path's, from the frame to the drop: neither a sender nor other processes are in it.
 */
import type { Namespace } from '../../test/netns/namespace.ts';
import { addressPlan, createTopology } from '../../test/netns/topology.ts';
import { type Flood, inject, readyForFlood } from '../inject/inject.ts';
import { ALLOWED, type DenyingRules, prepareDenying } from '../layouts/denying.ts';
import { DROP_TITLES, DROPS, type Drop, dropText, loadText, NOTRACK } from '../layouts/drops.ts';
import { rotated } from '../measure/connections.ts';
import { amount, atMost, type Benchmark, type Figure, figure, type Settings } from '../measure/figure.ts';
import { median } from '../measure/statistics.ts';

const PROTOCOLS = ['udp', 'syn'] as const satisfies readonly Flood['protocol'][];
type Protocol = (typeof PROTOCOLS)[number];
const PROTOCOL_TITLES = { udp: 'UDP', syn: 'SYN' } as const satisfies Record<Protocol, string>;
/** Packets in one go. */
const COUNT = 200_000;
const MOST = 10_000;

export const denied: Benchmark = {
  name: 'denied',
  title: 'a denied packet',
  how: `perf/inject: XDP test runs with live frames let the kernel receive ${COUNT.toLocaleString('en')} packets at an interface as from a driver, without a sender, each a new connection from another source; a figure is the processor time of that thread for each packet, from the frame to the drop. nodewall’s last rule denies everything, and it drops the flood. nodewall, one nft rule at other places and XDP programs are measured by turns beside each other; a ratio is of the same turn. The native XDP program runs in the driver’s place, in the test run; the generic one is attached to the veth (BPF_LINK_CREATE). Counters prove every drop.`,
  async run(settings) {
    const most = settings.quick ? 1000 : MOST;
    const figures: Figure[] = [];
    for (const protocol of PROTOCOLS) figures.push(...(await costFigures(protocol, most, settings)));
    return figures;
  },
};

/** What drops a flood, in a namespace of its own. */
interface Firewall {
  /** Measured one after the other. */
  readonly floods: readonly TitledFlood[];
  load(node: Namespace): Promise<void>;
}

interface TitledFlood extends Flood {
  readonly title: string;
}

async function costFigures(protocol: Protocol, most: number, settings: Settings): Promise<Figure[]> {
  const rules = await denyingFirewalls(protocol, most, settings.folder);
  const firewalls = [...DROPS.map((drop) => dropFirewall(drop, protocol)), ...rules];
  const titles = firewalls.flatMap(({ floods }) => floods.map(({ title }) => title));
  const costs = new Map(titles.map((title) => [title, [] as number[]]));
  for (let round = 0; round < amount(settings, [1, 1, 2]); round++)
    await measureRound(firewalls, amount(settings, [3, 3, 6]), (title, cost) => costs.get(title)?.push(cost));
  return toFigures(protocol, most, costs);
}

function dropFirewall(drop: Drop, protocol: Protocol): Firewall {
  const way = drop === 'native' || drop === 'generic' ? drop : 'pass';
  return {
    floods: [{ ...floodOf(protocol), way, title: DROP_TITLES[drop] }],
    load: (node) => loadText(node, dropText(drop)),
  };
}

/** To the port of the client that is let in. */
function floodOf(protocol: Protocol): Flood {
  return { protocol, destination: ALLOWED.destination, port: ALLOWED.port, way: 'pass' };
}

async function denyingFirewalls(protocol: Protocol, most: number, folder: string): Promise<Firewall[]> {
  const prepared = (kind: DenyingRules['kind'], size: number) =>
    prepareDenying({ kind, size, protocol }, folder);
  const flood = floodOf(protocol);
  const bySize = await Promise.all(
    [1, 100, 1000, MOST].filter((size) => size <= most).map((size) => prepared('ports', size)),
  );
  const byKind = await Promise.all([prepared('onePort', most), prepared('sources', most)]);
  const all = [...bySize, ...byKind].map(({ title, load, size, kind }): Firewall => {
    const isScanned = kind === 'ports' && size === most;
    const scan = { ...flood, port: 'any' as const, title: `${title}, all ports flooded` };
    return { floods: [{ ...flood, title }, ...(isScanned ? [scan] : [])], load: (node) => load(node) };
  });
  const [one] = bySize;
  if (one === undefined) return all;
  const bare: Firewall = {
    floods: [{ ...flood, title: `${one.title}, ${BARE}` }],
    load: (node) => one.load(node, 'bare'),
  };
  const untracked: Firewall = {
    floods: [{ ...flood, title: `${one.title}, ${UNTRACKED}` }],
    async load(node) {
      await one.load(node);
      await loadText(node, NOTRACK);
    },
  };
  return [...all, bare, untracked];
}

const BARE = 'without anti-spoofing, failsafe and exemptions';
const UNTRACKED = '`notrack` at raw priority';

async function measureRound(
  firewalls: readonly Firewall[],
  turns: number,
  measured: (title: string, cost: number) => void,
): Promise<void> {
  const places: { floods: Firewall['floods']; node: Namespace; close(): Promise<void> }[] = [];
  try {
    for (const { floods, load } of firewalls) {
      const { node, close } = await createTopology(addressPlan({ clients: 1, nodeAddresses: 1 }));
      places.push({ floods, node, close });
      await readyForFlood(node);
      await load(node);
    }
    // In the first turn the rules are not in the processor's caches.
    for (let turn = 0; turn <= turns; turn++)
      for (const { floods, node } of rotated(places, turn))
        for (const { title, ...flood } of floods) {
          const { packets, processor } = await inject(node, flood, COUNT);
          if (turn > 0) measured(title, (1e6 * processor) / packets);
        }
    for (const { floods, node } of places) await checkDropped(node, floods, COUNT * (turns + 1));
  } finally {
    for (const { close } of places) await close();
  }
}

/** By the counters of the rules; what XDP drops reaches none. */
async function checkDropped(node: Namespace, floods: Firewall['floods'], sent: number): Promise<void> {
  const titles = floods.map(({ title }) => title).join(', ');
  const { stdout: rules } = await node.run(['nft', 'list', 'ruleset']);
  const counters = [...rules.matchAll(/counter packets (\d+) bytes \d+ drop/g)];
  const counted = counters.reduce((sum, [, packets]) => sum + Number(packets), 0);
  const expected = floods.filter(({ way }) => way === 'pass').length * sent;
  if (counted !== expected) throw new Error(`${titles}: rules dropped ${counted} packets, not ${expected}`);
  const { stdout: counts } = await node.run(['cat', '/proc/self/net/snmp']);
  const [names = [], values = []] = [...counts.matchAll(/^Ip: (.*)$/gm)].map(([, line = '']) =>
    line.split(' '),
  );
  const delivered = Number(values[names.indexOf('InDelivers')]);
  if (delivered !== 0) throw new Error(`${titles}: ${delivered} packets delivered`);
}

function toFigures(
  protocol: Protocol,
  most: number,
  costs: ReadonlyMap<string, readonly number[]>,
): Figure[] {
  const flood = `${PROTOCOL_TITLES[protocol]} flood`;
  const of = (title: string) => costs.get(title) ?? [];
  const ratios = (title: string, to: string) => of(title).map((cost, i) => cost / (of(to)[i] ?? Number.NaN));
  const ratio = (title: string, to: string) => median(ratios(title, to)).toFixed(2);
  const part = (all: string, rest: string) => ratios(rest, all).map((share) => 100 * (1 - share));
  const { input, notrack, native, generic, raw } = DROP_TITLES;
  const [one = '', ...rules] = [...costs.keys()].filter((title) => title.startsWith('nodewall'));
  const whole = rules.filter((title) => !title.endsWith(BARE) && !title.endsWith(UNTRACKED));
  const note = (title: string) =>
    `${ratio(title, one)} × nodewall with 1 rule; ${ratio(title, raw)} × one rule at raw priority; ${ratio(title, native)} × XDP native, ${ratio(title, generic)} × generic`;
  return [
    ...[one, ...whole].map((title) =>
      figure(`${flood}: ${title}, against one rule at the same hook`, '×', ratios(title, input), {
        target: title.includes(MOST.toLocaleString('en')) && most === MOST ? atMost(1.3) : null,
        note: note(title),
      }),
    ),
    figure(`${flood}: connection tracking’s part of one rule’s cost`, '%', part(input, notrack), {
      note: 'what `notrack` saves',
    }),
    figure(
      `${flood}: connection tracking’s part of nodewall’s, 1 rule`,
      '%',
      part(one, `${one}, ${UNTRACKED}`),
    ),
    ...[...costs].map(([title, values]) => figure(`${flood}, each packet: ${title}`, 'µs', values)),
  ];
}
