import { type NodeState, namedBy } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Endpoints, WrittenEndpoints } from '../../apis/stream.ts';
import { type Message, type NodeMessage, snapshotText } from '../../apis/wire.ts';
import type { Log } from '../../lib/process/log.ts';
import { Saver, type StateFile, stateFile } from '../../lib/process/state-file.ts';
import { receive } from '../receive/receive.ts';

interface StoreOptions {
  readonly stateDir: string;
  /** Null: of whatever Node the saved state is, it was this machine. */
  readonly node: string | null;
  readonly log: Log;
  /**
   * Whether the feature gate EgressGateway is on, so that what was saved of it counts. Default: it
   * does.
   */
  readonly hasEgress?: boolean;
}

export type StateStore = ReturnType<typeof stateStore>;

/**
 * The state enforced last and its related data, on disk. Failed reads and writes are logged and
 * never stop enforcement.
 */
export function stateStore({ stateDir, node, log, hasEgress = true }: StoreOptions) {
  const state = new Saver<NodeState>(stateFile(stateDir, STATE_FILE), snapshotText(), log);
  const digests = jsonSaver<Digests>(stateDir, DIGESTS_FILE, log);
  const linkGroups = jsonSaver<LinkGroups>(stateDir, 'link-groups.json', log);
  const extension = jsonSaver<unknown>(stateDir, 'egress.json', log);
  const files = [state, digests, linkGroups, extension];
  return {
    state: (value: NodeState) => state.save(value),
    digests: (value: Digests) => digests.save(value),
    /** The digests of the last run's chains, so that unchanged chains keep their counters. */
    async readDigests(): Promise<Digests> {
      return (await digests.read((text) => JSON.parse(text) as Digests)) ?? {};
    },
    linkGroups: (value: LinkGroups) => linkGroups.save(value),
    /** The numbers of the link groups that rules name. */
    async readLinkGroups(): Promise<LinkGroups> {
      return (await linkGroups.read((text) => JSON.parse(text) as LinkGroups)) ?? {};
    },
    /** Called once at start: the rules of the last run, in force until the source says more. */
    async readState(): Promise<NodeState | null> {
      const found = await state.read(toNodeState);
      if (found !== null && node !== null && found.node !== node) {
        log.warn('the saved state is of another node; ignoring it', { node, savedNode: found.node });
        return null;
      }
      if (found === null || hasEgress) return found;
      const { egress: _, ...rest } = found;
      return rest;
    },
    extension: (memory: unknown) => extension.save(memory),
    /** The last run's knowledge of an extension, besides its part of the state. */
    readExtension: () => extension.read((text) => JSON.parse(text) as unknown),
    async flush(): Promise<void> {
      await Promise.all(files.map((file) => file.flush()));
    },
    /** From then on nothing is saved: another store may have the files. */
    async close(): Promise<void> {
      await Promise.all(files.map((file) => file.close()));
    },
  };
}

type Digests = Readonly<Record<string, string>>;

/**
 * The digests last saved in this state directory; empty if there are none, or they can't be read.
 */
export async function savedDigests(stateDir: string): Promise<Digests> {
  try {
    return JSON.parse((await stateFile(stateDir, DIGESTS_FILE).read()) ?? '{}') as Digests;
  } catch {
    return {};
  }
}

/**
 * The addresses of the Node object last saved in this state directory; null if there are none, or
 * they can't be read.
 */
export async function savedNodeAddresses(stateDir: string): Promise<readonly string[] | null> {
  return (await savedNode(stateDir))?.addresses ?? null;
}

/** The Node of the state last saved; null if there is none, or it can't be read. */
async function savedNode(stateDir: string): Promise<NodeMessage | null> {
  try {
    const text = await stateFile(stateDir, STATE_FILE).read();
    const [first = ''] = text?.split('\n', 1) ?? [];
    const message = first === '' ? null : (JSON.parse(first) as Message);
    return message?.type === 'node' ? message : null;
  } catch {
    // The caller that reads the whole state reports the error.
    return null;
  }
}

const STATE_FILE = 'node-state.jsonl';
const DIGESTS_FILE = 'digests.json';

/** Parses node-state.jsonl. Throws if it is not valid. */
export function toNodeState(text: string): NodeState {
  return receive(parseLines(text));
}

function* parseLines(text: string): Iterable<Message> {
  for (const line of text.split('\n')) if (line !== '') yield JSON.parse(line);
}

/** The Node that this machine was where no --node named one. */
export interface RememberedNode {
  readonly node: string;
  /** The host's name; another than `node`: it was changed, and the old rules stay. */
  readonly host: string;
}

/**
 * Null: this machine was no Node yet. Without the file, the saved state says for which Node it is.
 */
export async function rememberedNode(stateDir: string): Promise<RememberedNode | null> {
  const found = await fileOf(stateDir)
    .read()
    .then((text) => (text === null ? null : (JSON.parse(text) as Partial<RememberedNode> | null)))
    .catch(() => null);
  const { node, host } = found ?? {};
  if (typeof node === 'string' && typeof host === 'string') return { node, host };
  const saved = await savedNode(stateDir);
  return saved === null ? null : { node: saved.node, host: saved.node };
}

export function rememberNode(stateDir: string, { node, host }: RememberedNode): Promise<void> {
  return fileOf(stateDir).write(JSON.stringify({ node, host }));
}

function fileOf(stateDir: string): StateFile {
  return stateFile(stateDir, 'machine.json');
}

/** Group numbers by name. */
type LinkGroups = Readonly<Record<string, number>>;

/** The named link groups that these rules use. */
export function usedLinkGroups({ rules }: NodeState, { interfaceGroups }: Config): LinkGroups {
  const used: Record<string, number> = {};
  for (const name of namedBy(rules).interfaceGroups) {
    const number = typeof name === 'string' ? interfaceGroups[name] : undefined;
    if (number !== undefined) used[name] = number;
  }
  return used;
}

/**
 * If a name was removed from the configuration while a policy uses it, it keeps its last number:
 * otherwise the policy would be invalid, and traffic that it closes would be open after a restart.
 */
export function withLastLinkGroups(config: Config, last: LinkGroups, log: Log): Config {
  const lost = Object.entries(last).filter(([name]) => !Object.hasOwn(config.interfaceGroups, name));
  for (const [name, group] of lost) {
    log.warn(
      'policies name an interface group that the configuration lacks; its last number is used. Remove it from the policies, or add it to the configuration',
      { name, group },
    );
  }
  return { ...config, interfaceGroups: { ...Object.fromEntries(lost), ...config.interfaceGroups } };
}

/** Values that the agent of a cluster needs at its next start, besides the last good state. */
export interface ClusterMemory extends Partial<WrittenEndpoints> {
  /** The cluster's feature gate as last received; null: not received yet. */
  readonly enabled: boolean | null;
  /**
   * Addresses at which the controller was reached, sorted: for the failsafe list while names can't
   * be resolved.
   */
  readonly controllerAddresses: readonly string[];
  /** The API server as the kubelet reaches it; absent: not known. */
  readonly kubelet?: Endpoints;
  /**
   * The CA (PEM) for the controller's certificate as last read from the API server; absent: none.
   */
  readonly authorities?: string;
  /** Whether the controller's view last had egress gateways; absent: it had none. */
  readonly egress?: true;
  /** The time when the connection to the controller was lost (ISO 8601); null: it is connected. */
  readonly awaySince: string | null;
}

export type ClusterFile = ReturnType<typeof clusterFile>;

/** cluster.json in the state directory. */
export function clusterFile(stateDir: string, log: Log) {
  const file = jsonSaver<ClusterMemory>(stateDir, 'cluster.json', log);
  return {
    save: (memory: ClusterMemory) => file.save(memory),
    /** Null: there is none, or it can't be used. */
    read: () => file.read((text) => JSON.parse(text) as ClusterMemory),
    /** From then on nothing is saved: another agent may have the file. */
    close: () => file.close(),
  };
}

function jsonSaver<T>(stateDir: string, name: string, log: Log): Saver<T> {
  return new Saver<T>(stateFile(stateDir, name), (value) => JSON.stringify(value), log);
}
