import type { ServerResponse } from 'node:http';
import { type Overview, type OverviewLine, overviewPolicyKey } from '../../apis/console.ts';
import type { Clock } from '../../lib/process/clock.ts';
import { type Pace, pace } from '../../lib/process/timers.ts';
import { sameItems } from '../../lib/sharing/lists.ts';

interface OverviewWatchersOptions {
  /** Null: nothing is known yet. */
  readonly overview: () => Promise<Overview | null>;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
}

/** Times in milliseconds. */
export const WATCHER_LIMITS = {
  /** Watchers of all users together. */
  most: 500,
  /** Between two lines. */
  between: 100,
  /** Without anything else: looks for what no event announces, as nodes that fall silent. */
  heartbeat: 15_000,
  /** A watcher that takes no byte for this long is ended. */
  stalled: 60_000,
  /** The longest watch: the permission is checked again at the next. */
  longest: 1_800_000,
} as const;

interface Watcher {
  readonly response: ServerResponse;
  /** The overview that it has, or will have once it takes the lines written to it. */
  has: Overview | null;
  /** Since when it takes nothing; null: it has taken all. */
  blocked: number | null;
  readonly since: number;
}

/**
 * Those who watch the overview. Each has the lines from what it had to the present: a slow one gets
 * fewer and larger lines, and no more than one waits for it. Nothing is computed while nobody
 * watches.
 */
export class OverviewWatchers {
  readonly #options: OverviewWatchersOptions;
  readonly #watchers = new Set<Watcher>();
  readonly #pace: Pace;
  /** The lines of this turn: watchers with the same overview get the same bytes. */
  #lines = new Map<Overview | null, Buffer | null>();
  #now: Overview | null = null;
  #cancel: (() => void) | null = null;

  constructor(options: OverviewWatchersOptions) {
    this.#options = options;
    this.#pace = pace(options.clock, WATCHER_LIMITS.between, () => void this.#send());
  }

  get isFull(): boolean {
    return this.#watchers.size >= WATCHER_LIMITS.most;
  }

  get count(): number {
    return this.#watchers.size;
  }

  /** Something may have changed. */
  changed(): void {
    if (this.#watchers.size > 0) this.#pace.request();
  }

  /** Writes lines (apis/console.ts) until the response ends. */
  open(response: ServerResponse): void {
    response.writeHead(200, {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      connection: 'close',
    });
    response.flushHeaders();
    const watcher: Watcher = { response, has: null, blocked: null, since: this.#options.clock.now() };
    this.#watchers.add(watcher);
    response.on('drain', () => {
      watcher.blocked = null;
      this.changed();
    });
    response.once('close', () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size > 0) return;
      this.#cancel?.();
      this.#cancel = null;
    });
    this.#cancel ??= this.#options.clock.after(WATCHER_LIMITS.heartbeat, () => this.#beat());
    this.changed();
  }

  close(): void {
    this.#pace.close();
    this.#cancel?.();
    this.#cancel = null;
    for (const { response } of this.#watchers) response.end();
  }

  #beat(): void {
    const { clock } = this.#options;
    const { heartbeat, stalled, longest } = WATCHER_LIMITS;
    const now = clock.now();
    for (const watcher of this.#watchers) {
      if (watcher.blocked !== null && now - watcher.blocked >= stalled) watcher.response.destroy();
      else if (now - watcher.since >= longest) watcher.response.end();
      else if (watcher.blocked === null) this.#write(watcher, Buffer.from('\n'));
    }
    this.changed();
    this.#cancel = this.#watchers.size === 0 ? null : clock.after(heartbeat, () => this.#beat());
  }

  async #send(): Promise<void> {
    try {
      const overview = await this.#options.overview();
      if (overview === null) return;
      if (overview !== this.#now) this.#lines = new Map();
      this.#now = overview;
      for (const watcher of this.#watchers) if (watcher.blocked === null) this.#sendTo(watcher, overview);
    } catch (error) {
      this.#options.failed(error);
    }
  }

  #sendTo(watcher: Watcher, overview: Overview): void {
    const known = this.#lines.get(watcher.has);
    const line = known === undefined ? toBytes(watcher.has, overview) : known;
    this.#lines.set(watcher.has, line);
    watcher.has = overview;
    if (line !== null) this.#write(watcher, line);
  }

  #write(watcher: Watcher, bytes: Buffer): void {
    const { response } = watcher;
    if (response.writableEnded || response.destroyed) return;
    if (!response.write(bytes)) watcher.blocked = this.#options.clock.now();
  }
}

function toBytes(before: Overview | null, overview: Overview): Buffer | null {
  const line = overviewLine(before, overview);
  return line === null ? null : Buffer.from(`${JSON.stringify(line)}\n`);
}

/**
 * The line that leads a reader from one overview to the next; null: nothing. Unchanged parts must
 * be the same objects.
 */
export function overviewLine(before: Overview | null, overview: Overview): OverviewLine | null {
  if (before === null) return { type: 'overview', overview };
  const names = (one: Overview): string[] => one.nodes.map(({ name }) => name);
  if (before.nodes !== overview.nodes && !sameItems(names(before), names(overview)))
    return { type: 'overview', overview };
  const { isEnabled, remark, rollouts, problems } = overview;
  const changes = {
    ...(before.isEnabled === isEnabled ? {} : { isEnabled }),
    ...(before.remark === remark ? {} : { remark }),
    ...nodeChanges(before, overview),
    ...policyChanges(before, overview),
    ...(before.rollouts === rollouts ? {} : { rollouts }),
    ...(before.problems === problems ? {} : { problems }),
  };
  if (Object.keys(changes).length === 0) return null;
  return { type: 'change', time: overview.time, revision: overview.revision, ...changes };
}

function nodeChanges(before: Overview, { nodes }: Overview) {
  const changed = nodes.flatMap((node, index) => (node === before.nodes[index] ? [] : [{ index, node }]));
  return changed.length === 0 ? {} : { nodes: changed };
}

function policyChanges(before: Overview, now: Overview) {
  if (before.policies === now.policies) return {};
  const known = new Set(before.policies);
  const policies = now.policies.filter((one) => !known.has(one));
  const [was, order] = [before.policies.map(overviewPolicyKey), now.policies.map(overviewPolicyKey)];
  return {
    ...(policies.length === 0 ? {} : { policies }),
    ...(sameItems(was, order) ? {} : { order }),
  };
}
