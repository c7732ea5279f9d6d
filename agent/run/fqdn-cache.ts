import { networkInterfaces } from 'node:os';
import type { AddressSet, NodeState } from '../../apis/compiled.ts';
import type { NamesConfig } from '../../apis/config.ts';
import { nameResolver } from '../../apis/names.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import type { WatchedNames } from '../names/names.ts';
import { hostAddresses } from '../receive/host-addresses.ts';

interface NameOverlayParts {
  readonly config: NamesConfig;
  readonly clock: Clock;
  readonly log: Log;
  readonly stateDir: string;
  /** True: names are resolved before the state is submitted, and not watched afterwards. */
  readonly once: boolean;
  /** The API server's addresses. */
  readonly apiServer: () => readonly string[];
  /** Takes the states with resolved names. */
  submit(state: NodeState): void;
}

export interface NameOverlay {
  submit(state: NodeState): void;
  /** The state without the addresses of names: the saved state must not keep addresses forever. */
  withoutNames(state: NodeState): NodeState;
  withNames(state: NodeState): NodeState;
  /** Resolves once the latest state has been submitted. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Time limit of `--once` for names (milliseconds); names without an answer by then have their saved
 * addresses.
 */
const ONCE_PATIENCE = 5_000;

/**
 * Stands before the enforcer: adds the addresses of fqdn peers to states, and submits again when
 * they change. As long as no rule has such a peer, states are passed on unchanged and nothing is
 * loaded.
 */
export function nameOverlay(parts: NameOverlayParts): NameOverlay {
  const { log, once, submit } = parts;
  const resolve = nameResolver();
  const bases = new WeakMap<NodeState, NodeState>();
  const baseSets = new WeakMap<AddressSet, AddressSet>();
  let latest: NodeState | null = null;
  let names: WatchedNames | null = null;
  let loading: Promise<void> | null = null;

  function withNames(state: NodeState): NodeState {
    if (names === null) return state;
    const withAddresses = resolve(state, names.table);
    if (withAddresses === state) return state;
    const resolved = { ...withAddresses, nameServers: names.servers };
    bases.set(resolved, state);
    for (const [id, base] of state.addressSets) {
      const set = resolved.addressSets.get(id);
      if (set !== undefined && set !== base) baseSets.set(set, base);
    }
    return resolved;
  }
  /**
   * The enforcer may have put a state in force that has an earlier version of a policy: its
   * AddressSets are still the same objects.
   */
  function withoutNames(state: NodeState): NodeState {
    const base = bases.get(state);
    if (base !== undefined) return base;
    const sets = [...state.addressSets.values()];
    if (!sets.some((set) => baseSets.has(set))) return state;
    return { ...state, addressSets: new Map(sets.map((set) => [set.id, baseSets.get(set) ?? set])) };
  }
  function submitLatest(): void {
    if (latest !== null) submit(withNames(latest));
  }
  async function load(): Promise<void> {
    try {
      const { namesOnNode } = await import('./fqdn-resolver.ts');
      const watched = await namesOnNode({ ...parts, reserved: () => reservedFor(latest, parts) }, () =>
        names === null ? undefined : submitLatest(),
      );
      watched.want(peersOf(latest));
      if (once) await answered(watched, parts);
      names = watched;
    } catch (error) {
      log.error('cannot start the FQDN resolver; fqdn peers match nothing', {
        stage: 'names',
        error: (error as Error).message,
      });
    }
    loading = null;
    names?.want(peersOf(latest));
    submitLatest();
  }

  return {
    withNames,
    withoutNames,
    submit(state) {
      latest = state;
      const peers = peersOf(state);
      if (loading !== null) return;
      if (names === null && peers.length > 0) {
        loading = load();
        return;
      }
      names?.want(peers);
      submitLatest();
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
function reservedFor(state: NodeState | null, { apiServer }: NameOverlayParts): string[] {
  return [...hostAddresses(networkInterfaces()), ...(state?.nodeAddresses ?? []), ...apiServer()];
}

async function answered(names: WatchedNames, { clock, log }: NameOverlayParts): Promise<void> {
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
function peersOf(state: NodeState | null): string[] {
  const all = new Set<string>();
  for (const { names } of state?.addressSets.values() ?? []) for (const name of names) all.add(name);
  return [...all].sort();
}
