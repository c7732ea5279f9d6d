import { networkInterfaces } from 'node:os';
import type { NodeState } from '../../apis/compiled.ts';
import { nameResolver } from '../../apis/names.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { type Envelope, withResolved } from '../apply/envelope.ts';
import type { LocalPods } from '../interfaces/local-pods.ts';
import type { Vrfs } from '../interfaces/vrfs.ts';
import type { FqdnResolverOptions, WatchedNames } from '../names/names.ts';
import type { NodePlatform } from '../platform/watched-platform.ts';
import { hostAddresses } from './machine-addresses.ts';

export type PassOn = (envelope: Envelope) => void;

/** One part of what an agent does with a state on its way to the kernel and back. */
export interface Layer {
  /**
   * An envelope comes down. The layer passes it on with its own part, at once or later, and again
   * when its part changes.
   */
  submit(envelope: Envelope): void;
  /** The state with this layer's part as it is now; absent: it adds none. */
  over?(state: NodeState): NodeState;
  /** The part of an envelope that was passed on and is in force. */
  enforced?(result: Enforced): void;
  /** A third party changed the rules, or packets were accepted past the deadline of a trial. */
  lost?(): void;
  /** Resolves once no envelope waits here. */
  idle?(): Promise<void>;
}

/**
 * The layers between the source of states and the kernel. An envelope passes them in order, and
 * each adds its part; what is in force is reported to all in the same order. No layer takes back
 * what another added, because the envelope has the state in both forms.
 */
export class Layers {
  #layers: readonly Layer[] = [];

  /** Puts a layer before those that are there: the last one is put first. */
  put<L extends Layer>(layer: L): L {
    this.#layers = [layer, ...this.#layers];
    return layer;
  }

  /** Passes an envelope on to the layer that is the first one now. */
  get next(): PassOn {
    const [first] = this.#layers;
    return (envelope) => first?.submit(envelope);
  }

  /** The state with what all layers add now. */
  resolve(state: NodeState): NodeState {
    return this.#layers.reduce((rest, layer) => layer.over?.(rest) ?? rest, state);
  }

  enforced(result: Enforced): void {
    for (const layer of this.#layers) layer.enforced?.(result);
  }

  lost(): void {
    for (const layer of this.#layers) layer.lost?.();
  }

  async idle(): Promise<void> {
    for (const layer of this.#layers) await layer.idle?.();
  }
}

interface InterfaceOverlay extends Layer {
  over(state: NodeState): NodeState;
  close(): void;
}

interface InterfaceParts {
  readonly localPods: LocalPods;
  readonly vrfs: Vrfs;
  readonly platform: NodePlatform;
}

/**
 * Adds to states the destinations routed to local pods, the devices of VRFs, and what the node
 * needs to carry pods, and passes the latest on again when they change.
 */
export function interfaceOverlay(parts: InterfaceParts, next: PassOn): InterfaceOverlay {
  let latest: Envelope | null = null;
  function over(state: NodeState): NodeState {
    const localPods = parts.localPods.now();
    const vrfs = parts.vrfs.now();
    const platform = parts.platform.now();
    // An annotation says less than this kernel, of which it may have been written long ago.
    const { platform: annotated, ...rest } = state;
    if (localPods === null && vrfs.length === 0 && platform.length === 0)
      return annotated === undefined ? state : rest;
    return {
      ...rest,
      ...(localPods === null ? {} : { localPods }),
      vrfs,
      ...(platform.length === 0 ? {} : { platform }),
    };
  }
  function pass(): void {
    if (latest !== null) next(withResolved(latest, over(latest.resolved)));
  }
  const stops = [parts.localPods.listen(pass), parts.vrfs.listen(pass), parts.platform.listen(pass)];
  return {
    over,
    submit(envelope) {
      latest = envelope;
      pass();
    },
    close() {
      for (const stop of stops) stop();
    },
  };
}

/** With `once`, names are resolved before the state is submitted, and not watched afterwards. */
interface FqdnCacheOptions extends Omit<FqdnResolverOptions, 'reserved'> {
  /** The API server's addresses. */
  readonly apiServer: () => readonly string[];
  readonly next: PassOn;
}

export interface NameOverlay extends Layer {
  over(state: NodeState): NodeState;
  /** Resolves once the latest state has been passed on. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Time limit of `--once` for names (milliseconds); names without an answer by then have their saved
 * addresses.
 */
const ONCE_PATIENCE = 5_000;

/**
 * Adds the addresses of fqdn peers to states, and passes the latest on again when they change. As
 * long as no rule has such a peer, states are passed on unchanged and nothing is loaded.
 */
export function nameOverlay(options: FqdnCacheOptions): NameOverlay {
  const { log, once, next } = options;
  const resolve = nameResolver();
  let latest: Envelope | null = null;
  let names: WatchedNames | null = null;
  let loading: Promise<void> | null = null;

  function over(state: NodeState): NodeState {
    if (names === null) return state;
    const withAddresses = resolve(state, names.table);
    return withAddresses === state ? state : { ...withAddresses, nameServers: names.servers };
  }
  function pass(): void {
    if (latest !== null) next(withResolved(latest, over(latest.resolved)));
  }
  async function load(): Promise<void> {
    try {
      const { namesOnNode } = await import('../names/names.ts');
      const watched = await namesOnNode({ ...options, reserved: () => reservedFor(latest, options) }, () =>
        names === null ? undefined : pass(),
      );
      watched.want(peersOf(latest));
      if (once) await answered(watched, options);
      names = watched;
    } catch (error) {
      log.error('cannot start the FQDN resolver; fqdn peers match nothing', {
        stage: 'names',
        error: (error as Error).message,
      });
    }
    loading = null;
    names?.want(peersOf(latest));
    pass();
  }

  return {
    over,
    submit(envelope) {
      latest = envelope;
      const peers = peersOf(envelope);
      if (loading !== null) return;
      if (names === null && peers.length > 0) {
        loading = load();
        return;
      }
      names?.want(peers);
      pass();
    },
    async idle() {
      while (loading !== null) await loading;
    },
    async close() {
      await loading;
      await names?.close();
    },
  };
}

/** Addresses that no wildcard may have. */
function reservedFor(latest: Envelope | null, { apiServer }: FqdnCacheOptions): string[] {
  const own = latest?.resolved.nodeAddresses ?? [];
  return [...hostAddresses(networkInterfaces()), ...own, ...apiServer()];
}

async function answered(names: WatchedNames, { clock, log }: FqdnCacheOptions): Promise<void> {
  const isAnswered = names.settled().then(() => true);
  const patience = new Promise<false>((end) => {
    const cancel = clock.after(ONCE_PATIENCE, () => end(false));
    void isAnswered.then(cancel);
  });
  if (await Promise.race([isAnswered, patience])) return;
  log.warn('not every name was resolved in time; the others have the addresses of the last run', {
    stage: 'names',
    seconds: ONCE_PATIENCE / 1000,
  });
}

/** Sorted, unique. */
function peersOf(envelope: Envelope | null): string[] {
  const all = new Set<string>();
  for (const { names } of envelope?.resolved.addressSets.values() ?? [])
    for (const name of names) all.add(name);
  return [...all].sort();
}
