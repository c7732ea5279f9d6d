import { isDeepStrictEqual } from 'node:util';
import { RouteMonitor, RouteSocket, WireGuardSocket } from 'nftables-napi';
import { type Config, DEFAULT_EGRESS_GROUP } from '../../apis/config.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { NO_MEMBERS, unpackAddress } from '../../lib/net/member-set.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { MonitorTrouble } from '../dataplane/dataplane.ts';
import { flowtables } from '../inspect/machine-facts.ts';
import { kernelSysctls, readSysctl, warnOfFlowtables, warnOfHost } from './apply/host-settings.ts';
import { NetstateKeeper } from './apply/netstate-keeper.ts';
import { NetstateReconciler } from './apply/netstate-reconciler.ts';
import type { WireGuardPort } from './apply/wireguard.ts';
import { ClientWaker } from './client-waker.ts';
import type { EgressNetwork } from './egress-reconciler.ts';
import type { OpenFloating } from './floating/open-floating.ts';
import { forgetAll, forgettingConnections } from './forget-connections.ts';
import { InterfaceAddresses } from './health/interface-addresses.ts';
import { toArpTable } from './render/arp-table.ts';
import {
  type EgressHost,
  keyProblem,
  NO_NETSTATE,
  netstateRenderer,
  tunnelRefusal,
} from './render/netstate.ts';
import { TUNNEL, USUAL_MTU } from './render/tunnel.ts';
import { publicKeyText, type WireGuardKeys } from './wireguard-keys.ts';

interface NetworkOptions {
  readonly config: Pick<Config, 'interfaceGroups' | 'egress'>;
  /** Null: the configuration does not encrypt the tunnel. */
  readonly keys: WireGuardKeys | null;
  readonly log: Log;
  readonly clock: Clock;
  /** Somebody else changed it; it was repaired by these commands. */
  readonly drifted: (repairs: readonly string[]) => void;
  readonly troubled: (trouble: MonitorTrouble) => void;
  /** Called with everything that is missing from now on; empty: nothing is. */
  readonly incomplete?: ((problems: readonly string[]) => void) | undefined;
  readonly floating: Pick<OpenFloating, 'leave' | 'silence' | 'verify'>;
  /** An interface that a gateway names has another address. */
  readonly addressesChanged?: () => void;
}

interface OpenNetwork extends EgressNetwork {
  readonly interfaces: InterfaceAddresses;
  /** Nothing is removed from the kernel. */
  close(): Promise<void>;
}

/** The network configuration of this machine, kept by events once something was applied. */
export function openNetwork(options: NetworkOptions): OpenNetwork {
  const { config, keys, log, clock, drifted, troubled, floating, incomplete } = options;
  warnOfHost({ read: readSysctl }, log);
  void warnOfFlowtables(flowtables, log);
  const socket = new RouteSocket();
  const wireguard = wireguardPort(keys);
  const stage = 'apply';
  /** Why there is no tunnel, and what the kernel lacks of the rest. */
  let refusals: readonly string[] = [];
  let lacks: readonly string[] = [];
  function tell(): void {
    const problems = [...refusals, ...lacks];
    incomplete?.(problems);
    if (problems.length === 0)
      log.info('the network configuration of egress gateways is complete', { stage });
    else
      log.error(
        'the network configuration of egress gateways is not complete; retrying. What needs it is dropped',
        { stage, problems },
      );
  }
  const interfaces = new InterfaceAddresses({
    clock,
    changed: () => options.addressesChanged?.(),
    async read() {
      const [links, addresses] = await Promise.all([socket.links(), socket.addresses()]);
      return { links, addresses };
    },
  });
  const keeper = new NetstateKeeper({
    reconciler: new NetstateReconciler(socket, kernelSysctls(socket), wireguard),
    clock,
    open: (listener) =>
      new RouteMonitor({}, (events) => {
        listener(events);
        interfaces.receive(events);
      }),
    drifted,
    problems(problems) {
      lacks = problems.map(({ message }) => message);
      tell();
    },
    troubled(trouble, error) {
      troubled(trouble);
      if (trouble === 'failed')
        log.error('the monitor of routes failed; opening it again', { stage, error: error?.message });
    },
  });
  const group = config.interfaceGroups.egress ?? DEFAULT_EGRESS_GROUP;
  const encrypts = config.egress.encryption === 'WireGuard';
  const ownKey = keys === null ? undefined : publicKeyText(keys);
  const render = netstateRenderer();
  const waker = new ClientWaker({ clock, log });
  const forgetting = forgettingConnections({ clock, log, waker });
  return {
    interfaces,
    async netstateOf(egress) {
      const host = { group, encrypts, ownKey, ...(await underlayOf(socket, egress)) };
      const before = refusals;
      refusals = [tunnelRefusal(egress, host), keyProblem(egress, host)].flatMap((text) => text ?? []);
      if (!isDeepStrictEqual(refusals, before)) tell();
      return render(egress, host);
    },
    async hasTunnel() {
      const links = await socket.links();
      return links.some(({ name }) => name === TUNNEL.link);
    },
    apply: (wanted, options) => keeper.apply(wanted, options),
    leave: (egress) => floating.leave(egress?.floating ?? NO_MEMBERS),
    silence: (egress) => floating.silence(toArpTable(egress)),
    verifySilence: () => floating.verify(),
    forget: (ended) => forgetting.add(ended),
    async close() {
      await forgetting.close();
      waker.close();
      await keeper.close();
      await Promise.all([socket.close(), wireguard.close()]);
    },
  };
}

/** A WireGuardSocket, which is opened when a device is there that needs it. */
export function wireguardPort(keys: WireGuardKeys | null): WireGuardPort & { close(): Promise<void> } {
  let socket: WireGuardSocket | null = null;
  const opened = (): WireGuardSocket => {
    socket ??= new WireGuardSocket();
    return socket;
  };
  return {
    async keys() {
      if (keys === null) throw new Error('this process has no key');
      return keys;
    },
    device: (index) => opened().device(index),
    change: (index, change) => opened().change(index, change),
    close: async () => socket?.close(),
  };
}

/** The interface that has the address of this node's end of the tunnel. */
async function underlayOf(
  socket: Pick<RouteSocket, 'links' | 'addresses'>,
  egress: NodeEgress | null,
): Promise<Pick<EgressHost, 'underlay' | 'underlayMtu'>> {
  const own = parseAddress(egress?.tunnel?.address ?? '');
  if (own === null) return { underlayMtu: USUAL_MTU };
  const text = formatAddress(own);
  const [links, addresses] = await Promise.all([socket.links(), socket.addresses()]);
  const found = addresses.find(
    ({ address }) => formatAddress(unpackAddress(address.length === 4 ? 4 : 6, address, 0)) === text,
  );
  const link = links.find(({ index }) => index === found?.link);
  return { underlay: link?.name, underlayMtu: link?.mtu ?? USUAL_MTU };
}

/** Removes all network configuration of egress gateways; returns what was removed. */
export async function removeNetwork(): Promise<string[]> {
  const socket = new RouteSocket();
  try {
    const { operations, problems } = await new NetstateReconciler(
      socket,
      kernelSysctls(socket),
      wireguardPort(null),
    ).apply(NO_NETSTATE);
    const [problem] = problems.filter(({ code }) => code !== 'FOREIGN');
    if (problem !== undefined) throw new Error(problem.message);
    if (operations.length > 0) await forgetAll();
    return operations.map((operation) => operation.replace(/^delete: /, '').replace(' add ', ' '));
  } finally {
    await socket.close();
  }
}
