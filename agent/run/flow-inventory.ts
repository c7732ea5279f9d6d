import { readFile, rm } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../apis/config.ts';
import { pause, systemClock, type WallClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { Saver, stateFile } from '../../lib/process/state-file.ts';
import { FlowFacts } from '../flows/flow-facts.ts';
import {
  FLOWS_FILE,
  FlowInventory,
  type FlowSource,
  inventoryText,
  parseInventory,
} from '../flows/flow-inventory.ts';
import { toDeniedFlow } from '../flows/flow-kind.ts';
import { FlowWatch, type FlowWatchOptions } from '../flows/flow-watch.ts';
import { classifier } from '../interfaces/classify.ts';
import type { RecorderOptions } from '../record/recorder.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import { attachmentsNow, listLinks, readRoutes } from './interface-groups.ts';
import { savedNodeAddresses } from './state-store.ts';
import { loadAddon } from './with-kernel.ts';

/** Milliseconds between two writes of the file: 1.5 MB of 10,000 kinds take 30 ms. */
const WRITE_INTERVAL = 60_000;
/** Milliseconds that an answer waits for a reading of the kernel's connections. */
const PATIENCE = 2_500;
/** Milliseconds for which the Node's addresses in the saved state, a large file, are believed. */
const DECLARED_AGE = 60_000;

interface FlowInventoryOptions {
  readonly options: Pick<AgentOptions, 'node' | 'stateDir' | 'once'>;
  readonly config: Config;
  readonly log: Log;
  readonly metrics: Pick<AgentMetrics, 'monitor'>;
  readonly clock: WallClock;
}

/** The flow inventory of a running agent. */
export interface KeptFlows extends FlowSource {
  /** Takes the flow log's records. */
  readonly recorded: NonNullable<RecorderOptions['recorded']>;
  close(): Promise<void>;
}

/**
 * Starts the flow inventory, which goes on whether rules are in force or not; null if the
 * configuration turns it off, or with `--once`. Without it the file is removed. Does not wait for
 * the kernel.
 */
export async function keepFlows({
  options,
  config,
  log,
  metrics,
  clock,
}: FlowInventoryOptions): Promise<KeptFlows | null> {
  const { node, stateDir, once } = options;
  if (once) return null;
  if (!config.flowInventory.enabled) {
    await rm(join(stateDir, FLOWS_FILE), { force: true }).catch((error: Error) => {
      log.error('cannot remove the flow inventory', { node, error: error.message });
    });
    return null;
  }
  const saver = new Saver<{ readonly of: FlowInventory }>(
    stateFile(stateDir, FLOWS_FILE),
    ({ of }) => inventoryText(of, node),
    log,
    { interval: WRITE_INTERVAL },
  );
  const now = clock.date().getTime();
  const read = await saver.read((text) => parseInventory(text, now));
  const isOwn = read?.node === node;
  if (read !== null && !isOwn)
    log.warn('the saved flow inventory is of another node; starting without it', {
      node,
      savedNode: read.node,
    });
  const inventory = read !== null && isOwn ? read.inventory : new FlowInventory(now);
  const changed = (): void => saver.save({ of: inventory });
  const { BegunMonitor } = await loadAddon();
  const watch = new FlowWatch({
    ...(await readingParts({ stateDir, config, clock })),
    node,
    inventory,
    clock,
    log,
    changed,
    hasEvents: await hasEvents(node, log),
    openMonitor: (pause, listener) => new BegunMonitor({ pause }, listener),
    troubled: (trouble) => metrics.monitor('flows', trouble),
  });
  void watch.start();
  return {
    inventory,
    node,
    async read() {
      const late = new AbortController();
      await Promise.race([watch.read(), pause(clock, PATIENCE, late.signal)]);
      late.abort();
      return watch.lastRead;
    },
    lastRead: () => watch.lastRead,
    recorded(record) {
      const flow = toDeniedFlow(record, config);
      if (flow === null) return;
      const time = clock.date().getTime();
      inventory.seen(inventory.kindOf(flow, time), flow, { now: time, connections: 1 });
      changed();
    },
    async close() {
      await watch.close();
      await saver.close();
    },
  };
}

/**
 * The inventory as the agent of this machine last saved it, with the connections that the kernel
 * has now; null: there is none. Throws a StateFileError or a TypeError if it cannot be read.
 */
export async function savedFlows(
  stateDir: string,
  config: Config,
  log: FlowWatchOptions['log'],
): Promise<FlowSource | null> {
  const text = await stateFile(stateDir, FLOWS_FILE).read();
  if (text === null) return null;
  const { node, inventory } = parseInventory(text, Date.now());
  // The agent's configuration may be another one than that of the command.
  const known = new Map(inventory.kinds().map(({ last }) => [last.peer, last.group]));
  let lookedAt: number | null = null;
  return {
    inventory,
    node,
    async read() {
      const watch = new FlowWatch({
        ...(await readingParts({ stateDir, config, known, clock: systemClock })),
        node,
        inventory,
        clock: systemClock,
        log,
        hasEvents: true,
        openMonitor() {
          throw new Error('the agent watches connections, not a command');
        },
        changed() {},
        troubled() {},
      });
      await watch.read();
      await watch.close();
      lookedAt = watch.lastRead;
      return lookedAt;
    },
    lastRead: () => lookedAt,
  };
}

/** The parts that a reading of the kernel's connections needs. */
async function readingParts({
  stateDir,
  config,
  clock,
  known = new Map(),
}: {
  readonly stateDir: string;
  readonly config: Config;
  readonly clock: Pick<WallClock, 'now'>;
  readonly known?: ReadonlyMap<string, number>;
}): Promise<Pick<FlowWatchOptions, 'scan' | 'readFacts' | 'pods'>> {
  const { Conntrack } = await loadAddon();
  const classify = classifier(config);
  let last: { readonly text: string; readonly facts: FlowFacts } | null = null;
  let declared: readonly string[] | null = null;
  let declaredAt = Number.NEGATIVE_INFINITY;
  return {
    pods: config.interfaceGroups.pods,
    async scan(visit, goesOn) {
      const conntrack = new Conntrack();
      try {
        await conntrack.scan(visit, goesOn);
      } finally {
        await conntrack.close();
      }
    },
    async readFacts() {
      if (clock.now() - declaredAt >= DECLARED_AGE) {
        declared = await savedNodeAddresses(stateDir);
        declaredAt = clock.now();
      }
      const [links, routes] = await Promise.all([listLinks(), readRoutes().catch(() => null)]);
      const interfaces = networkInterfaces();
      // The groups that the agent gives them, also while it enforces nothing.
      const attachments = await attachmentsNow(declared);
      const decisions = classify(links, { held: new Map(), attachments });
      const readings = {
        addresses: Object.values(interfaces).flatMap((some) => some ?? []),
        links: decisions.map(({ link: { name }, group }) => ({ name, group })),
        routes,
      };
      const text = JSON.stringify(readings);
      if (text !== last?.text) last = { text, facts: new FlowFacts({ ...readings, known }) };
      return last.facts;
    },
  };
}

const SETTING = '/proc/sys/net/netfilter/nf_conntrack_events';

async function hasEvents(node: string, log: Log): Promise<boolean> {
  const setting = await readFile(SETTING, 'latin1').catch(() => '');
  if (setting.trim() !== '0') return true;
  const message =
    'the kernel reports no connections: the flow inventory lacks short ones. Set net.netfilter.nf_conntrack_events to 2';
  log.warn(message, { node });
  return false;
}
