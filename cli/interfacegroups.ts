import { networkInterfaces } from 'node:os';
import {
  classifier,
  groupName,
  type Held,
  reasonText,
  unknownMatches,
} from '../agent/interfaces/classify.ts';
import { type GroupChange, GroupKeeper, type GroupKeeperEvents } from '../agent/interfaces/groupkeeper.ts';
import { type GroupNames, writeGroupNames } from '../agent/interfaces/groupnames.ts';
import { interfacesOnNetworks } from '../agent/interfaces/onnetwork.ts';
import { releaseGroups, toHeld } from '../agent/interfaces/release.ts';
import { type StateFile, stateFile } from '../agent/receive/statefile.ts';
import type { Config } from '../apis/config.ts';
import type { AgentOptions } from './agentoptions.ts';
import { loadAddon } from './kernel.ts';
import { savedNodeAddresses, saver } from './lastgood.ts';
import type { Log } from './log.ts';
import { systemClock } from './systemclock.ts';

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
    const keeper = new GroupKeeper({
      links,
      classify: classifier(config),
      remembered,
      onNetwork: () => interfacesOnNetworks(networkInterfaces(), declared),
      events: reports({ node, config, log, held: saved.save }),
      clock: systemClock,
    });
    // First the events, then the list: what changes meanwhile is told again.
    const monitor = once ? null : new LinkMonitor({}, (events) => keeper.tell(events));
    await keeper.lookAtAll();
    await nameGroups(config.interfaceGroupFile, config.interfaceGroups, log);
    const interval = once ? undefined : setInterval(() => void keeper.lookAtAll(), LOOK_INTERVAL);
    return {
      nameOf: (index) => keeper.nameOf(index),
      groupOf: (index) => keeper.groupOf(index),
      async nodeHas(addresses) {
        if (declared?.join() === addresses.join()) return;
        declared = addresses;
        await keeper.lookAtAll();
      },
      async close() {
        clearInterval(interval);
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
    return { nameOf: () => null, groupOf: () => null, nodeHas: async () => undefined, close: saved.flush };
  }
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
