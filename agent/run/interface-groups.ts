import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import type { LinkEvent } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { saver } from '../../lib/process/saver.ts';
import { type StateFile, stateFile } from '../../lib/process/state-file.ts';
import { classifier, groupName, type Held, reasonText, unknownMatches } from '../interfaces/classify.ts';
import { type GroupChange, GroupKeeper, type GroupKeeperEvents } from '../interfaces/group-keeper.ts';
import { type GroupNames, writeGroupNames } from '../interfaces/group-names.ts';
import { type LocalPods, NO_LOCAL_PODS, toLocalPods, WatchedLocalPods } from '../interfaces/local-pods.ts';
import { interfacesOnNetworks } from '../interfaces/on-network.ts';
import { type RouteTexts, routedOutBy } from '../interfaces/pod-routes.ts';
import { releaseGroups, toHeld } from '../interfaces/release.ts';
import type { AgentOptions } from './agent-options.ts';
import { savedNodeAddresses } from './state-store.ts';
import { loadAddon } from './with-kernel.ts';

/** For what no event tells: addresses, groups set on links that are down (milliseconds). */
const LOOK_INTERVAL = 60_000;
/** More changes than this at once are one line. */
const NAMED_ALONE = 5;
const NAMED = 20;

/** What others of the agent may ask; the tables are live and cost nothing. */
export interface InterfaceGroups {
  /** Of an interface that is there, or was a while ago. */
  nameOf(index: number): string | null;
  groupOf(index: number): number | null;
  readonly localPods: LocalPods;
  /** Addresses of the Node object: an interface that has one is how the node itself is attached, and no pod's. */
  nodeHas(addresses: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

interface Parts {
  readonly options: AgentOptions;
  readonly config: Config;
  readonly log: Log;
}

/** The file in the state directory that says which groups are ours. */
export function heldFile(stateDir: string): StateFile {
  return stateFile(stateDir, 'interfaces.json');
}

/**
 * Puts every interface into its group, then goes on doing so (`--once`: not). What fails is logged: interfaces without a group
 * are policed as the host's, so that nothing is open by it.
 */
export async function keepInterfaceGroups({ options, config, log }: Parts): Promise<InterfaceGroups> {
  const { node, once, stateDir } = options;
  for (const problem of unknownMatches(config)) log.warn(problem, { node });
  const { LinkMonitor, LinkSocket } = await loadAddon();
  const saved = saver<readonly Held[]>(heldFile(stateDir), (held) => JSON.stringify(held), log);
  const remembered = toHeld(await saved.read((text) => JSON.parse(text)));
  let declared = await savedNodeAddresses(stateDir);
  try {
    const links = new LinkSocket();
    const localPods = new WatchedLocalPods({
      read: readRoutes,
      interfaces: () => keeper.namesIn(config.interfaceGroups.pods),
      clock: systemClock,
      unreadable(error) {
        log.error(
          "routes cannot be read; the node's traffic to its own pods by a Service's address may be judged",
          {
            node,
            error: error.message,
          },
        );
      },
    });
    const events = reports({ node, config, log, held: saved.save });
    const keeper = new GroupKeeper({
      links,
      classify: classifier(config),
      remembered,
      onNetwork: () => interfacesOnNetworks(networkInterfaces(), declared),
      events: {
        ...events,
        changed(changes) {
          events.changed(changes);
          localPods.linksChanged();
        },
      },
      clock: systemClock,
    });
    // First the events, then the list: what changes meanwhile is told again.
    const tell = (told: readonly LinkEvent[]): void => {
      keeper.tell(told);
      localPods.linksChanged();
    };
    const monitor = once ? null : new LinkMonitor({}, tell);
    await keeper.lookAtAll();
    const lookAtPods = async (): Promise<void> => {
      if (config.exemptions.localPods) await localPods.look();
    };
    await lookAtPods();
    if (!once && config.exemptions.localPods) localPods.watch();
    await nameGroups(config.interfaceGroupFile, config.interfaceGroups, log);
    const interval = once ? undefined : setInterval(() => void keeper.lookAtAll(), LOOK_INTERVAL);
    return {
      nameOf: (index) => keeper.nameOf(index),
      groupOf: (index) => keeper.groupOf(index),
      localPods,
      async nodeHas(addresses) {
        if (declared?.join() === addresses.join()) return;
        declared = addresses;
        await keeper.lookAtAll();
        await lookAtPods();
      },
      async close() {
        clearInterval(interval);
        localPods.close();
        await monitor?.close();
        await keeper.close();
        await links.close();
        await saved.flush();
      },
    };
  } catch (error) {
    log.error("cannot watch interfaces; groups stay as they are, exemptions don't apply to new pods", {
      node,
      error: (error as Error).message,
    });
    return {
      nameOf: () => null,
      groupOf: () => null,
      localPods: NO_LOCAL_PODS,
      nodeHas: async () => undefined,
      close: saved.flush,
    };
  }
}

/** The state as an agent that starts now would have it: with the destinations routed to local pods. */
export async function withLocalPodsNow(state: NodeState, config: Config): Promise<NodeState> {
  const { LinkSocket } = await loadAddon();
  const links = new LinkSocket();
  try {
    const found = (await links.list()).filter(({ group }) => group === config.interfaceGroups.pods);
    const members = routedOutBy(await readRoutes(), new Set(found.map(({ name }) => name)));
    return { ...state, localPods: toLocalPods(members) };
  } finally {
    await links.close();
  }
}

async function readRoutes(): Promise<RouteTexts> {
  const [ipv4, ipv6] = await Promise.all([
    readFile('/proc/self/net/route', 'latin1'),
    readFile('/proc/self/net/ipv6_route', 'latin1').catch(ifMissing),
  ]);
  return { ipv4, ipv6 };
}

/** A kernel without IPv6. */
function ifMissing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return '';
  throw error;
}

interface Warnings {
  warn(message: string, fields?: object): void;
}

interface Released {
  /** Names of the interfaces that were set back to group 0. */
  readonly interfaces: readonly string[];
}

/** Undoes what an agent with this state directory did: its groups go back to 0, its lines leave the file of names. */
export async function releaseInterfaceGroups(
  stateDir: string,
  { interfaceGroupFile }: Config,
  log: Warnings,
): Promise<Released> {
  await nameGroups(interfaceGroupFile, null, log);
  const file = heldFile(stateDir);
  const remembered = await readHeld(file, log);
  if (remembered.length === 0) return { interfaces: [] };
  const { LinkSocket } = await loadAddon();
  const links = new LinkSocket();
  try {
    const released = await releaseGroups(links, remembered);
    await file.write('[]');
    return { interfaces: released.map(({ name }) => name).sort() };
  } finally {
    await links.close();
  }
}

async function readHeld(file: StateFile, log: Warnings): Promise<readonly Held[]> {
  try {
    return toHeld(JSON.parse((await file.read()) ?? '[]'));
  } catch (error) {
    log.warn('which interface groups are ours cannot be read; they stay', {
      error: (error as Error).message,
    });
    return [];
  }
}

async function nameGroups(path: string, names: GroupNames, log: Warnings): Promise<void> {
  if (path === '') return;
  try {
    for (const conflict of await writeGroupNames(path, names)) log.warn(`${path}: ${conflict}`);
  } catch (error) {
    log.warn('cannot write the names of interface groups; ip link shows their numbers', {
      error: (error as Error).message,
    });
  }
}

interface ReportParts {
  readonly node: string;
  readonly config: Config;
  readonly log: Log;
  held(held: readonly Held[]): void;
}

function reports({ node, config, log, held }: ReportParts): GroupKeeperEvents {
  const refusals = new Set<string>();
  const shown = (group: number): string | number => groupName(config, group) ?? group;
  const line = (level: 'info' | 'debug', { name, index, before, group, reason }: GroupChange): void => {
    log.log(level, group === 0 ? 'interface taken out of its group' : 'interface put into its group', {
      node,
      interface: name,
      index,
      group: shown(group === 0 ? before : group),
      reason: reasonText(reason),
    });
  };
  return {
    held,
    changed(changes) {
      refusals.clear();
      const isBurst = changes.length > NAMED_ALONE;
      for (const change of changes) line(isBurst ? 'debug' : 'info', change);
      if (!isBurst) return;
      for (const [group, some] of Map.groupBy(changes, ({ group }) => group)) {
        log.info(group === 0 ? 'interfaces taken out of their groups' : 'interfaces put into their group', {
          node,
          group: shown(group),
          count: some.length,
          interfaces: some.slice(0, NAMED).map(({ name }) => name),
        });
      }
    },
    refused({ name, index, group }, error) {
      const isNew = !refusals.has(error.code);
      refusals.add(error.code);
      const advice =
        error.code === 'EPERM' ? '; this needs root, or CAP_NET_ADMIN in this network namespace' : '';
      log.log(isNew ? 'error' : 'debug', `the kernel refused to set the group of an interface${advice}`, {
        node,
        interface: name,
        index,
        group: shown(group),
        error: error.message,
      });
    },
    failed(error, retryIn) {
      log.error(`cannot list interfaces, next try in ${retryIn / 1000} s`, { node, error: error.message });
    },
    deaf(error) {
      log.error(`events of interfaces ended; only a look every ${LOOK_INTERVAL / 1000} s is left`, {
        node,
        error: error.message,
      });
    },
  };
}
