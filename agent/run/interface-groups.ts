import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import type { Link, LinkSocket, RouteSocket } from 'nftables-napi';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { entryText, type PlatformEntry } from '../../apis/platform.ts';
import { FAMILIES } from '../../lib/net/address.ts';
import type { MemberSet } from '../../lib/net/member-set.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { ifAbsent, Saver, type StateFile, stateFile } from '../../lib/process/state-file.ts';
import { type NodeFacts, OwnAddresses } from '../connections/node-facts.ts';
import { hasKubeProxy } from '../inspect/machine-facts.ts';
import { type Attachments, attachments } from '../interfaces/attachment.ts';
import { classifier, type OwnedGroup, unknownMatches } from '../interfaces/classify.ts';
import { type GroupNames, writeGroupNames } from '../interfaces/group-names.ts';
import { GroupReconciler, type Links, releaseGroups, toOwnedGroups } from '../interfaces/group-reconciler.ts';
import {
  type LocalPods,
  localPodsSet,
  NO_LOCAL_PODS,
  type RouteTexts,
  routedOutBy,
  WatchedLocalPods,
} from '../interfaces/local-pods.ts';
import { UnseenProxy } from '../interfaces/unseen-proxy.ts';
import { NO_VRFS, type Vrfs, vrfsOf, WatchedVrfs } from '../interfaces/vrfs.ts';
import { readKernelFacts } from '../platform/kernel-facts.ts';
import { isTunnel, NO_KERNEL_FACTS, platformEntries } from '../platform/platform-facts.ts';
import { NO_PLATFORM, type NodePlatform, WatchedPlatform } from '../platform/watched-platform.ts';
import type { AgentMetrics } from './agent-metrics.ts';
import type { AgentOptions } from './agent-options.ts';
import { interfaceLog } from './interface-log.ts';
import { watchLinks } from './link-watch.ts';
import { savedNodeAddresses } from './state-store.ts';
import { loadAddon } from './with-kernel.ts';

/** Interval for sockets, WireGuard's peers and IPsec, which have no events (milliseconds). */
const PLATFORM_INTERVAL = 15_000;
/** Interval for changes that have no event: groups set on links that are down (milliseconds). */
const LOOK_INTERVAL = 60_000;

/** Interface data for other parts of the agent; reads come from memory. */
export interface InterfaceGroups {
  /** The name of an interface that exists, or existed a while ago. */
  nameOf(index: number): string | null;
  groupOf(index: number): number | null;
  readonly localPods: LocalPods;
  readonly vrfs: Vrfs;
  readonly platform: NodePlatform;
  /** Why NodePort policies match nothing on this node; null: nothing is known against them. */
  readonly unseenProxy: string | null;
  /**
   * Sets the addresses of the Node object. An interface that has one of them attaches the node
   * itself, also if a CNI gives its interfaces such a name.
   */
  nodeHas(addresses: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

interface InterfaceGroupsOptions {
  readonly options: AgentOptions;
  readonly config: Config;
  readonly log: Log;
  readonly metrics: Pick<AgentMetrics, 'monitor'>;
}

/** Entries that one line of the log names. */
const MOST_LOGGED = 20;

/** The file in the state directory that lists the groups set by the agent. */
export function ownedGroupsFile(stateDir: string): StateFile {
  return stateFile(stateDir, 'interfaces.json');
}

/**
 * Puts every interface into its group, and keeps doing so unless `--once`. Failures are logged:
 * interfaces without a group are policed as the host's, so that a failure opens nothing.
 */
export async function keepInterfaceGroups({
  options,
  config,
  log,
  metrics,
}: InterfaceGroupsOptions): Promise<InterfaceGroups> {
  const { node, once, stateDir } = options;
  for (const problem of unknownMatches(config)) log.warn(problem, { node });
  const addon = await loadAddon();
  const saved = new Saver<readonly OwnedGroup[]>(
    ownedGroupsFile(stateDir),
    (held) => JSON.stringify(held),
    log,
  );
  const remembered = toOwnedGroups(await saved.read((text) => JSON.parse(text)));
  const declared = await savedNodeAddresses(stateDir);
  try {
    const kept = new KeptGroups({ node, once, config, log, metrics, addon, saved, remembered, declared });
    await kept.start();
    return kept;
  } catch (error) {
    log.error('cannot watch interfaces; groups stay as they are, new pods get no exemption', {
      node,
      error: (error as Error).message,
    });
    return {
      nameOf: () => null,
      groupOf: () => null,
      localPods: NO_LOCAL_PODS,
      vrfs: NO_VRFS,
      platform: NO_PLATFORM,
      unseenProxy: null,
      nodeHas: async () => undefined,
      close: () => saved.close(),
    };
  }
}

interface KeptGroupsOptions {
  readonly node: string;
  readonly once: boolean;
  readonly config: Config;
  readonly log: Log;
  readonly metrics: Pick<AgentMetrics, 'monitor'>;
  readonly addon: Awaited<ReturnType<typeof loadAddon>>;
  readonly saved: Saver<readonly OwnedGroup[]>;
  /** The groups that an earlier run set. */
  readonly remembered: readonly OwnedGroup[];
  /** Addresses of the Node object as an earlier run saved them; null: not known. */
  readonly declared: readonly string[] | null;
}

class KeptGroups implements InterfaceGroups {
  readonly localPods: WatchedLocalPods;
  readonly vrfs = new WatchedVrfs();
  readonly platform: WatchedPlatform;
  readonly #options: KeptGroupsOptions;
  readonly #proxy: UnseenProxy;
  readonly #groups: LinkSocket;
  readonly #network: RouteSocket;
  readonly #reconciler: GroupReconciler;
  #declared: readonly string[] | null;
  #monitors: readonly { close(): Promise<void> }[] = [];
  #intervals: NodeJS.Timeout[] = [];

  /** Throws if the kernel refuses a socket. */
  constructor(options: KeptGroupsOptions) {
    const { node, config, log, addon, saved, remembered } = options;
    this.#options = options;
    this.#declared = options.declared;
    this.#groups = new addon.LinkSocket();
    this.#network = new addon.RouteSocket();
    this.localPods = new WatchedLocalPods({
      read: readRoutes,
      interfaces: () => this.#reconciler.namesIn(config.interfaceGroups.pods),
      clock: systemClock,
      unreadable(error) {
        log.error(
          "cannot read routes; the rules may apply to the node's traffic to its own pods by a Service's address",
          { node, error: error.message },
        );
      },
    });
    const unreadable = new Set<string>();
    this.platform = new WatchedPlatform({
      read: async (links, last) => {
        const { facts, unread } = await readKernelFacts(addon, links, last);
        for (const { fact, error } of unread) {
          const { message } = error;
          if (unreadable.has(`${fact} ${message}`)) continue;
          unreadable.add(`${fact} ${message}`);
          log.warn('cannot read a part of what this node needs to carry pods; it stays as it was', {
            node,
            name: fact,
            error: message,
          });
        }
        return facts;
      },
      changed: (entries) =>
        log.info('this node needs these to carry pods; a deny without ports spares them', {
          node,
          count: entries.length,
          ports: [...new Set(entries.map(entryText))].slice(0, MOST_LOGGED).join(', '),
        }),
    });
    this.#proxy = new UnseenProxy({
      hasKubeProxy,
      now: () => performance.now(),
      changed: (why) => log.info(why ?? 'NodePort policies are enforced again', { node }),
    });
    const said = interfaceLog({ node, config, log });
    this.#reconciler = new GroupReconciler({
      links: linksOf(this.#network, this.#groups),
      classify: classifier(config),
      remembered,
      attachments: () => readAttachments(this.#network, this.#declared),
      events: {
        ...said,
        known: (links) => {
          this.vrfs.update(links);
          if (config.sparesPlatform) this.platform.update(links);
          this.#proxy.update(links);
        },
        owned: (held) => saved.save(held),
        changed: (changes) => {
          said.changed(changes);
          this.localPods.linksChanged();
        },
      },
      clock: systemClock,
    });
  }

  async start(): Promise<void> {
    const { once, config, log } = this.#options;
    // Monitors are opened before the first list, so that a change during the list is not missed.
    if (!once) this.#monitors = [this.#watch(), this.#watchNetwork()];
    await this.#reconciler.reconcileAll();
    await this.#proxy.settled();
    if (config.sparesPlatform) await this.platform.refresh();
    await this.#refreshPods();
    if (!once && config.exemptions.localPods) this.localPods.watch();
    await nameGroups(config.interfaceGroupFile, config.interfaceGroups, log);
    if (once) return;
    this.#intervals = [setInterval(() => void this.#reconciler.reconcileAll(), LOOK_INTERVAL)];
    if (config.sparesPlatform)
      this.#intervals.push(setInterval(() => void this.platform.refresh(), PLATFORM_INTERVAL));
  }

  get unseenProxy(): string | null {
    return this.#proxy.why;
  }

  nameOf(index: number): string | null {
    return this.#reconciler.nameOf(index);
  }

  groupOf(index: number): number | null {
    return this.#reconciler.groupOf(index);
  }

  async nodeHas(addresses: readonly string[]): Promise<void> {
    if (this.#declared?.join() === addresses.join()) return;
    this.#declared = addresses;
    await this.#reconciler.reconcileAll();
    await this.#refreshPods();
  }

  async close(): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval);
    this.localPods.close();
    await Promise.all(this.#monitors.map((monitor) => monitor.close()));
    await this.#reconciler.close();
    await Promise.all([this.#groups.close(), this.#network.close()]);
    await this.#options.saved.close();
  }

  #watch(): { close(): Promise<void> } {
    const { node, log, metrics, addon } = this.#options;
    return watchLinks({
      name: 'links',
      node,
      log,
      metrics,
      clock: systemClock,
      open: (listener) => new addon.RouteMonitor({ kinds: ['link'] }, listener),
      meanwhile: `new interfaces are found every ${LOOK_INTERVAL / 1000} s`,
      happened: (events) => {
        this.#reconciler.tell(events);
        this.localPods.linksChanged();
      },
      missed: () => {
        void this.#reconciler.reconcileAll();
        this.localPods.linksChanged();
      },
    });
  }

  /** Addresses and routes say whether an interface leads to pods. */
  #watchNetwork(): { close(): Promise<void> } {
    const { node, log, metrics, addon } = this.#options;
    return watchLinks({
      name: 'routes',
      node,
      log,
      metrics,
      clock: systemClock,
      open: (listener) => new addon.RouteMonitor({ kinds: ['address', 'route'] }, listener),
      meanwhile: `changes of addresses and routes are found every ${LOOK_INTERVAL / 1000} s`,
      happened: () => this.#reconciler.networkChanged(),
      missed: () => this.#reconciler.networkChanged(),
    });
  }

  async #refreshPods(): Promise<void> {
    if (this.#options.config.exemptions.localPods) await this.localPods.refresh();
  }
}

function linksOf(network: RouteSocket, groups: LinkSocket): Links {
  return {
    links: () => network.links(),
    linksAt: (indices) => network.linksAt(indices),
    setGroups: (changes) => groups.setGroups(changes),
  };
}

/** How each link attaches the node itself, read from the kernel. */
async function readAttachments(
  socket: RouteSocket,
  declared: readonly string[] | null,
): Promise<Attachments> {
  const [addresses, ...routes] = await Promise.all([
    socket.addresses(),
    ...FAMILIES.map((family) => socket.linkRoutes(family)),
  ]);
  return attachments({ addresses, routes: routes.flat() }, declared);
}

/** The same, with a socket of its own. */
export async function attachmentsNow(declared: readonly string[] | null): Promise<Attachments> {
  const { RouteSocket } = await loadAddon();
  const socket = new RouteSocket();
  try {
    return await readAttachments(socket, declared);
  } finally {
    await socket.close();
  }
}

/** The state with what the interfaces add to it, as they are now. */
export async function withInterfacesNow(state: NodeState, config: Config): Promise<NodeState> {
  const links = await listLinks();
  const localPods = localPodsSet(podRoutes(links, await readRoutes(), config));
  return { ...state, localPods, vrfs: vrfsOf(links) };
}

/** This machine needs these now to carry pods; none if the configuration doesn't spare them. */
export async function platformNow({
  sparesPlatform,
}: Pick<Config, 'sparesPlatform'>): Promise<PlatformEntry[]> {
  if (!sparesPlatform) return [];
  const links = (await listLinks()).filter(isTunnel);
  const { facts } = await readKernelFacts(await loadAddon(), links, NO_KERNEL_FACTS);
  return platformEntries(facts);
}

/** The facts of this machine as they are now, read from the kernel. */
export async function nodeFacts(config: Config): Promise<NodeFacts> {
  const links = await listLinks();
  const infos = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const routes = await readRoutes().catch(() => null);
  return {
    own: new OwnAddresses(infos.map(({ address }) => address)),
    groups: links.filter(({ isLoopback }) => !isLoopback).map(({ group }) => group),
    localPods: routes === null ? null : podRoutes(links, routes, config),
  };
}

function podRoutes(links: readonly Link[], routes: RouteTexts, { interfaceGroups }: Config): MemberSet {
  const ofPods = links.filter(({ group }) => group === interfaceGroups.pods);
  return routedOutBy(routes, new Set(ofPods.map(({ name }) => name)));
}

/** Why NodePort policies match nothing in this network namespace; null: nothing is known. */
export async function unseenProxyNow(): Promise<string | null> {
  const proxy = new UnseenProxy({ hasKubeProxy, now: () => 0, changed: () => {} });
  proxy.update(await listLinks());
  await proxy.settled();
  return proxy.why;
}

/** The interfaces of this network namespace. */
export async function listLinks(): Promise<Link[]> {
  const { RouteSocket } = await loadAddon();
  const socket = new RouteSocket();
  try {
    return await socket.links();
  } finally {
    await socket.close();
  }
}

/** The kernel's routes. */
export async function readRoutes(): Promise<RouteTexts> {
  const [ipv4, ipv6] = await Promise.all([
    readFile('/proc/self/net/route', 'latin1'),
    // Absent: the kernel has no IPv6.
    readFile('/proc/self/net/ipv6_route', 'latin1').catch(ifAbsent),
  ]);
  return { ipv4, ipv6: ipv6 ?? '' };
}

interface Warnings {
  warn(message: string, fields?: object): void;
}

interface Released {
  /** Names of the interfaces that were reset to group 0. */
  readonly interfaces: readonly string[];
}

/**
 * Undoes the changes of an agent with this state directory: resets its interfaces to group 0,
 * removes its lines from the file of group names, and ends what waits for an extension's part.
 */
export async function releaseInterfaceGroups(
  stateDir: string,
  { interfaceGroupFile }: Config,
  log: Warnings,
): Promise<Released> {
  await nameGroups(interfaceGroupFile, null, log);
  // Loaded here alone: `explain` and others that read groups run without the addon.
  const { KERNEL_EXTENSION } = await import('../extension/kernel.ts');
  await KERNEL_EXTENSION.release(stateDir);
  const file = ownedGroupsFile(stateDir);
  const remembered = await readOwnedGroups(file, log);
  if (remembered.length === 0) return { interfaces: [] };
  const { LinkSocket, RouteSocket } = await loadAddon();
  const [network, groups] = [new RouteSocket(), new LinkSocket()];
  try {
    const released = await releaseGroups(linksOf(network, groups), remembered);
    await file.write('[]');
    return { interfaces: released.map(({ name }) => name).sort() };
  } finally {
    await Promise.all([network.close(), groups.close()]);
  }
}

async function readOwnedGroups(file: StateFile, log: Warnings): Promise<readonly OwnedGroup[]> {
  try {
    return toOwnedGroups(JSON.parse((await file.read()) ?? '[]'));
  } catch (error) {
    log.warn('cannot read the saved interface groups; the groups of interfaces stay as they are', {
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
    log.warn('cannot write the names of interface groups; ip link shows numbers instead', {
      error: (error as Error).message,
    });
  }
}
