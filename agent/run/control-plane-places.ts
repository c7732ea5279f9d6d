import { lookup } from 'node:dns/promises';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import {
  type Config,
  defaultEgressFailsafe,
  type FailsafeEntry,
  type InwardProbeConfig,
} from '../../apis/config.ts';
import { OWN_INWARD } from '../../apis/probes.ts';
import { asFields, asList, type FieldMap } from '../../apis/schema/json-schema.ts';
import type { Endpoints } from '../../apis/stream.ts';
import { parseYaml } from '../../apis/validate/yaml-document.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { ConnectionAttempt } from '../../lib/process/connection-attempt.ts';
import type { Log } from '../../lib/process/log.ts';
import type { Behind, OutwardProbe } from '../guard/probes.ts';
import { type Destination, destinationOf } from '../receive/destinations.ts';

/**
 * Interval at which the kubelet's kubeconfig is read, and its server's name resolved
 * (milliseconds).
 */
const KUBELET_INTERVAL = 60_000;
/** The time that a start without any address waits for a name server (milliseconds). */
const RESOLVE_PATIENCE = 2_000;

interface ControlPlanePlacesOptions {
  readonly node: string;
  readonly url: URL;
  /** The API server's URL that the agent uses; null: none. */
  readonly apiServer: URL | null;
  readonly config: Config;
  readonly addresses: readonly string[];
  readonly endpoints: readonly Endpoints[];
  /** The API server as the kubelet reaches it; null: not known. */
  readonly kubelet: Endpoints | null;
  /** The controllers themselves, which stand behind the URL where that is their Service. */
  readonly replicas: () => readonly Destination[];
  readonly log: Log;
  /**
   * Called after a change of addresses or endpoints, which must be saved and put on the failsafe
   * list.
   */
  readonly changed: () => void;
}

/** The control plane's addresses as far as this agent knows them, for the failsafe list. */
export class ControlPlanePlaces {
  readonly #options: ControlPlanePlacesOptions;
  /** The controller's addresses, sorted. */
  addresses: readonly string[];
  endpoints: readonly Endpoints[];
  kubelet: Endpoints | null;
  #cancelKubelet = (): void => {};
  #kubeletError = '';
  #isClosed = false;

  constructor(options: ControlPlanePlacesOptions) {
    this.#options = options;
    this.addresses = options.addresses;
    this.endpoints = options.endpoints;
    this.kubelet = options.kubelet;
  }

  /** All known addresses of the API server. */
  apiServers(): string[] {
    const { apiServer } = this.#options;
    const asked = apiServer === null ? [] : addressOf(apiServer);
    const known = [...this.endpoints, ...(this.kubelet === null ? [] : [this.kubelet])];
    return [...asked, ...known.flatMap(({ addresses }) => addresses)];
  }

  /** For the failsafe list of egress; empty if the configuration replaces it. */
  entries(): readonly FailsafeEntry[] {
    const { failsafe, controllerPorts } = this.#options.config;
    return isDeepStrictEqual(failsafe.egress, defaultEgressFailsafe(controllerPorts))
      ? failsafeEntries(this.#known())
      : [];
  }

  /** Whatever the configuration is, with the controllers themselves: for guarded apply. */
  allEntries(): readonly FailsafeEntry[] {
    const replicas = this.#options.replicas().map(({ host, port }) => ({ port, addresses: [host] }));
    return failsafeEntries([...this.#known(), ...replicas]);
  }

  #known(): readonly Endpoints[] {
    const { url, apiServer } = this.#options;
    const controller = { port: portOf(url), addresses: this.addresses };
    const asked = apiServer === null ? [] : [{ port: portOf(apiServer), addresses: addressOf(apiServer) }];
    return [...this.endpoints, controller, ...asked, ...(this.kubelet === null ? [] : [this.kubelet])];
  }

  /**
   * Probes of guarded apply: the API server that the agent uses, else the kubelet's, and the
   * controller.
   */
  probes(): OutwardProbe[] {
    const { url, apiServer, replicas } = this.#options;
    const tls = (addresses: readonly string[], port: number) =>
      addresses.map((address): ConnectionAttempt => ({ kind: 'tls', address, port }));
    const used = apiServer === null ? [] : tls(addressOf(apiServer), portOf(apiServer));
    const { kubelet } = this;
    const server = used.length > 0 || kubelet === null ? used : tls(kubelet.addresses, kubelet.port);
    const behind = this.#endpointsOf('tcp');
    const controllers = tls(this.addresses, portOf(url));
    const controllersBehind = replicas().map(({ host, port }) => ({ address: host, port }));
    return [
      { kind: 'outward', name: 'api-server', attempts: server, behind } as const,
      { kind: 'outward', name: 'controller', attempts: controllers, behind: controllersBehind } as const,
    ].filter(({ attempts }) => attempts.length > 0);
  }

  /**
   * Probes of guarded apply by other agents, to an API server and a controller at this node's own
   * addresses: rules that close these cut off all other nodes, and not this one. API servers need
   * the controller's webhooks.
   */
  inward(own: readonly string[]): InwardProbeConfig[] {
    const { replicas, config } = this.#options;
    const controllers = replicas().map(({ host, port }) => ({ address: host, port }));
    const { webhook } = config.controllerPorts;
    const servers: Readonly<Record<(typeof OWN_INWARD)[number], readonly Behind[]>> = {
      'to-api-server': this.#endpointsOf('tcp'),
      'to-controller': controllers,
      'to-webhook': controllers.map(({ address }) => ({ address, port: webhook })),
    };
    return OWN_INWARD.flatMap((name): InwardProbeConfig[] => {
      const port = servers[name].find(({ address }) => own.includes(address))?.port;
      return port === undefined ? [] : [{ name, from: 'peer', family: null, target: { kind: 'tcp', port } }];
    });
  }

  /** The cluster's DNS, where its pods have another port than its Service. */
  nameServers(): readonly Behind[] {
    return this.#endpointsOf('udp');
  }

  /** Sets the API server's endpoints as the controller sent them. */
  setEndpoints(endpoints: readonly Endpoints[]): void {
    if (isDeepStrictEqual(endpoints, this.endpoints)) return;
    this.endpoints = endpoints;
    this.#options.changed();
  }

  /** Adds an address at which the controller was reached. */
  reached(address: string): void {
    if (address !== '') this.#know([...this.addresses, address]);
  }

  /**
   * Looks up the controller's name. Without any known address, waits for the name server for a
   * limited time. A failure is only logged: names may not be resolvable before the node has a
   * network, and connections provide the address too.
   */
  async resolve(clock: Clock): Promise<void> {
    const { node, url, log } = this.#options;
    const resolving = controllerAddresses(url)
      .then((found) => this.#know(found))
      .catch(({ message: error }: Error) => {
        log.warn("cannot resolve the controller's name", { node, controller: url.host, error });
      });
    if (this.addresses.length > 0) return;
    const late = Promise.withResolvers<void>();
    const cancel = clock.after(RESOLVE_PATIENCE, late.resolve);
    await Promise.race([resolving, late.promise]);
    cancel();
  }

  /**
   * Reads the server of the kubelet's kubeconfig, and again once a minute. A server that can't be
   * read or resolved any more stays on the list.
   */
  async followKubelet(clock: Clock): Promise<void> {
    const { node, config, log } = this.#options;
    try {
      const url = await kubeletServer(config.kubeletKubeconfig);
      if (url !== null) {
        const found = { port: portOf(url), addresses: await controllerAddresses(url) };
        if (!isDeepStrictEqual(found, this.kubelet)) {
          this.kubelet = found;
          this.#options.changed();
        }
      }
      this.#kubeletError = '';
    } catch (cause) {
      const { message: error } = cause as Error;
      if (error !== this.#kubeletError)
        log.warn("cannot find the API server of the kubelet's kubeconfig", { node, error });
      this.#kubeletError = error;
    }
    if (!this.#isClosed) this.#cancelKubelet = clock.after(KUBELET_INTERVAL, () => this.followKubelet(clock));
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelKubelet();
  }

  #endpointsOf(wanted: 'tcp' | 'udp'): Behind[] {
    return this.endpoints
      .filter(({ protocol = 'tcp' }) => protocol === wanted)
      .flatMap(({ port, addresses }) => addresses.map((address) => ({ address, port })));
  }

  #know(found: readonly string[]): void {
    const now = [...new Set(found)].sort();
    if (now.join() === this.addresses.join()) return;
    this.addresses = now;
    this.#options.changed();
  }
}

/** The port of https://HOST:PORT. */
export function portOf(url: URL): number {
  return destinationOf(url).port;
}

/** The URL's host if it is an address; empty if it is a name. */
function addressOf(url: URL): readonly string[] {
  const { host } = destinationOf(url);
  return isIP(host) === 0 ? [] : [host];
}

/**
 * The addresses of the controller's host, sorted; a name is resolved at each call, because its
 * addresses may change. Throws if the name can't be resolved.
 */
async function controllerAddresses(url: URL): Promise<string[]> {
  const known = addressOf(url);
  if (known.length > 0) return [...known];
  const found = await lookup(url.hostname, { all: true });
  return [...new Set(found.map(({ address }) => address))].sort();
}

/**
 * The control plane as entries of the failsafe list, by port: the API server, the cluster's DNS,
 * and the controller by the address that the agent connects to, before or after destination NAT. A
 * blanket Drop must cut off neither the agent from the controller, through which the policy can be
 * deleted, nor the node from the API server.
 */
function failsafeEntries(endpoints: readonly Endpoints[]): FailsafeEntry[] {
  const byPort = Map.groupBy(endpoints, ({ protocol = 'tcp', port }) => `${protocol} ${port}`);
  return [...byPort.values()]
    .flatMap((ofPort): FailsafeEntry[] => {
      const [{ protocol = 'tcp', port } = { port: 0 }] = ofPort;
      const peers = [...new Set(ofPort.flatMap(({ addresses }) => addresses))].sort();
      return peers.length === 0 ? [] : [{ protocol, ports: [port, port], peers }];
    })
    .sort((a, b) => a.ports[0] - b.ports[0] || (a.protocol < b.protocol ? -1 : 1));
}

/**
 * The kubelet's kubeconfig as distributions place it: kubeadm; managed clusters; k3s, RKE2;
 * OpenShift.
 */
const USUAL = [
  '/etc/kubernetes/kubelet.conf',
  '/var/lib/kubelet/kubeconfig',
  '/var/lib/rancher/k3s/agent/kubelet.kubeconfig',
  '/var/lib/rancher/rke2/agent/kubelet.kubeconfig',
  '/etc/kubernetes/kubeconfig',
];
/** Bytes; certificates may be in the file. */
const LONGEST = 1024 * 1024;

/**
 * The API server that this machine's kubelet uses, from its kubeconfig; null: there is no such
 * file, or it isn't readable. Throws if it names no server.
 * @param path '': the usual places
 */
export async function kubeletServer(path: string): Promise<URL | null> {
  for (const one of path === '' ? USUAL : [path]) {
    const text = await readIfThere(one);
    if (text === null) continue;
    const server = serverOf(text);
    if (server !== null) return server;
    throw new Error(`${one}: is not a kubeconfig with the https:// server of its current context`);
  }
  if (path !== '') throw new Error(`${path}: cannot be read`);
  return null;
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    const { size } = await stat(path);
    return size > LONGEST ? null : await readFile(path, 'utf8');
  } catch {
    // Absent or not readable: most machines have one of the files at most.
    return null;
  }
}

/** The server of the current context's cluster; of the only cluster if no context is current. */
function serverOf(text: string): URL | null {
  const parsed = parseYaml(text);
  const { clusters, contexts, ...config } = ('value' in parsed ? asFields(parsed.value) : null) ?? {};
  const context = asFields(named(contexts, config['current-context'])?.context);
  const cluster = named(clusters, context?.cluster) ?? onlyOne(clusters);
  const server = asFields(cluster?.cluster)?.server;
  const url = typeof server === 'string' ? URL.parse(server) : null;
  return url?.protocol === 'https:' ? url : null;
}

function named(list: unknown, name: unknown): FieldMap | null {
  return asFields(asList(list).find((item) => asFields(item)?.name === name));
}

function onlyOne(list: unknown): FieldMap | null {
  const [first, ...others] = asList(list);
  return others.length === 0 ? asFields(first) : null;
}
