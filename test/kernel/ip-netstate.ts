import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { NetstateResult } from '../../agent/egress/apply/kernel-object.ts';
import { type NetNexthop, type NetRule, type Netstate, OWN_NETWORK } from '../../apis/egress/netstate.ts';
import type { Namespace } from '../netns/namespace.ts';

const LINK = 'nodewall-egress';
const COMMANDS = [
  'ip -j -d link show',
  'ip -j addr',
  `bridge -j fdb show dev ${LINK} || echo []`,
  `ip -j neigh show dev ${LINK} nud permanent || echo []`,
  'ip -j nexthop',
  'ip -j -4 route show table all',
  'ip -j -6 route show table all',
  'ip -j -4 rule',
  'ip -j -6 rule',
  `sysctl -n net.ipv4.conf.${LINK}.rp_filter || echo none`,
];

/** What ip(8) prints; only the fields that are looked at. */
interface Shown {
  readonly [field: string]: unknown;
  readonly linkinfo?: { readonly info_kind: string; readonly info_data: Record<string, unknown> };
  readonly addr_info?: readonly { readonly local: string; readonly prefixlen: number }[];
  readonly group?: string | readonly { readonly id: number }[];
}

/**
 * What ip(8) shows of nodewall's numbers and names, and what it shows of a Netstate: the same if
 * the kernel has exactly that.
 */
export async function assertKernelHas(namespace: Namespace, netstate: Netstate, what: string): Promise<void> {
  const script = COMMANDS.map((command) => `(${command}) 2>/dev/null; echo`).join('\n');
  const { stdout } = await namespace.run(['sh', '-c', script]);
  const outputs = stdout.split('\n').filter((line) => line !== '');
  assert.equal(outputs.length, COMMANDS.length, stdout);
  const lists = outputs.slice(0, -1).map((line): readonly Shown[] => JSON.parse(line));
  assert.deepEqual(shown(lists, outputs.at(-1) ?? ''), expected(netstate), what);
}

function shown(lists: readonly (readonly Shown[])[], filter: string): string[] {
  const [links = [], addresses = [], fdb = [], neighbours = [], nexthops = []] = lists;
  const [, , , , , routes4 = [], routes6 = [], rules4 = [], rules6 = []] = lists;
  const own = ({ ifname }: Shown): boolean => ifname === LINK;
  const [first] = OWN_NETWORK.tables;
  return [
    ...links.filter(own).map(({ address, mtu, group, flags, linkinfo }) => {
      const { id, port, local, local6, learning, udp_csum } = linkinfo?.info_data ?? {};
      const isUp = (flags as string[]).includes('UP');
      return line(
        'link',
        linkinfo?.info_kind,
        address,
        mtu,
        group,
        isUp,
        id,
        port,
        local ?? local6,
        learning,
        udp_csum,
      );
    }),
    ...addresses
      .filter(own)
      .flatMap(({ ifname, addr_info }) =>
        (addr_info ?? [])
          .filter(({ local }) => !local.startsWith('fe80:'))
          .map(({ local, prefixlen }) => line('address', ifname, local, prefixlen)),
      ),
    ...fdb.map(({ mac, dst, state }) => line('fdb', mac, dst, state)),
    ...neighbours.map(({ dst, lladdr }) => line('neighbour', dst, lladdr)),
    ...nexthops.map(({ id, gateway, dev, group, protocol }) =>
      line(
        'nexthop',
        id,
        protocol,
        gateway,
        dev,
        Array.isArray(group) ? group.map((it) => it.id).join() : '',
      ),
    ),
    ...[routes4, routes6].flatMap((routes, i) =>
      routes
        .filter(({ table }) => Number(table) >= first)
        .map(({ table, dst, nhid, protocol, type }) =>
          line('route', i, table, dst, type === 'throw' ? type : nhid, protocol),
        ),
    ),
    ...[rules4, rules6].flatMap((rules, i) =>
      rules
        .filter(({ priority }) => Number(priority) >= 70 && Number(priority) <= 79)
        .map(({ priority, not, fwmark, fwmask, table, goto, nop }) =>
          line(
            'rule',
            i,
            priority,
            not === null,
            fwmark && Number(fwmark),
            fwmask && Number(fwmask),
            table,
            goto,
            nop === null,
          ),
        ),
    ),
    line('rp_filter', filter),
  ].sort();
}

function expected({ links, addresses, neighbours, nexthops, routes, rules, sysctls }: Netstate): string[] {
  return [
    ...links.flatMap((it) => {
      if (it.kind !== 'vxlan') return [];
      const { mac, mtu, group, id, port, local } = it;
      return line('link', 'vxlan', mac, mtu, group, true, id, port, local, false, local.includes(':'));
    }),
    ...addresses.map(({ link, address, prefixLength }) => line('address', link, address, prefixLength)),
    ...neighbours.map((it) =>
      it.kind === 'fdb' ? line('fdb', it.mac, it.remote, 'permanent') : line('neighbour', it.address, it.mac),
    ),
    ...nexthops.map(nexthopLine),
    ...routes.map(({ family, table, destination, nexthop }) => {
      const to = destination.endsWith('/0') ? 'default' : destination.split('/')[0];
      return line('route', family === 4 ? 0 : 1, table, to, nexthop ?? 'throw', OWN_NETWORK.protocol);
    }),
    ...rules.map(ruleLine),
    line('rp_filter', sysctls[0]?.value ?? 'none'),
  ].sort();
}

function nexthopLine(it: NetNexthop): string {
  const { protocol } = OWN_NETWORK;
  return 'group' in it
    ? line('nexthop', it.id, protocol, undefined, undefined, it.group.join())
    : line('nexthop', it.id, protocol, it.via, it.link, '');
}

function ruleLine(it: NetRule): string {
  const start = ['rule', it.family === 4 ? 0 : 1, it.priority];
  if (it.action === 'nop') return line(...start, false, undefined, undefined, undefined, undefined, true);
  const isGoto = it.action === 'goto';
  const inverted = isGoto && it.invert === true;
  return line(
    ...start,
    inverted,
    it.mark,
    it.mask,
    isGoto ? undefined : it.table,
    isGoto ? it.target : undefined,
    false,
  );
}

function line(...fields: readonly unknown[]): string {
  return fields.map((field) => field ?? '-').join(' ');
}

/** Shorter than the interval of full comparisons: what is repaired by then was told by an event. */
export const SOON = 20_000;

type Said = { readonly applied?: NetstateResult; readonly drifted?: readonly string[] } & Partial<
  Pick<NetstateResult, 'problems'>
>;

/** A process that keeps Netstates in a namespace. */
export class Keeper {
  readonly #child: ReturnType<Namespace['spawn']>;
  readonly #limit: number;
  readonly #said: Said[] = [];
  #heard = Promise.withResolvers<void>();

  /**
   * @param around the command that starts it
   * @param stateDir where its WireGuard key is; default: it has none
   * @param limit milliseconds, at most, until it has said what is waited for
   */
  constructor(namespace: Namespace, around: readonly string[] = [], stateDir = '', limit = SOON) {
    this.#limit = limit;
    const child = join(import.meta.dirname, 'netstate-child.ts');
    this.#child = namespace.spawn([...around, process.execPath, child, stateDir]);
    this.#child.stderr.pipe(process.stderr);
    createInterface(this.#child.stdout).on('line', (line) => {
      this.#said.push(JSON.parse(line));
      this.#heard.resolve();
    });
  }

  write(netstate: Netstate): void {
    this.#child.stdin.write(`${JSON.stringify(netstate)}\n`);
  }

  async apply(netstate: Netstate): Promise<NetstateResult> {
    this.write(netstate);
    return this.next(({ applied }) => applied ?? null);
  }

  /**
   * The first thing it says of which something is found; what was said before that is forgotten.
   */
  async next<Found>(find: (said: Said) => Found | null): Promise<Found> {
    const limit = AbortSignal.timeout(this.#limit);
    for (;;) {
      for (let said = this.#said.shift(); said !== undefined; said = this.#said.shift()) {
        const found = find(said);
        if (found !== null) return found;
      }
      this.#heard = Promise.withResolvers();
      await Promise.race([this.#heard.promise, once(limit, 'abort').then(() => assert.fail('said nothing'))]);
    }
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await once(this.#child, 'exit');
  }
}
