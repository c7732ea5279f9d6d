import { resolve } from 'node:path';
import { receive } from '../agent/receive/receive.ts';
import { type StateFile, stateFile } from '../agent/receive/statefile.ts';
import type { NodeState } from '../apis/compiled.ts';
import { snapshotText } from '../apis/snapshot.ts';
import type { Message } from '../apis/wire.ts';
import type { MemoryJson } from '../controller/watch/memory.ts';
import type { LinkGroups } from './linkgroups.ts';
import type { Log } from './log.ts';

/** The least time between two writes (milliseconds): the first is made at once, a burst after it is one write. */
const WRITE_INTERVAL = 500;
/** A write that failed is tried again after this long (milliseconds). */
const WRITE_RETRY = 10_000;

interface LastGoodOptions {
  readonly stateDir: string;
  readonly node: string;
  /** None: the agent of a cluster. */
  readonly manifests: readonly string[];
  readonly log: Log;
}

export type LastGood = ReturnType<typeof lastGood>;

/**
 * What survives a restart: the last state that was enforced, and the last valid version of what each manifest held. A disk that
 * can't be read or written is logged and never stops enforcement.
 */
export function lastGood({ stateDir, node, manifests: paths, log }: LastGoodOptions) {
  const origin = JSON.stringify(paths.map((path) => resolve(path)));
  const state = saver<NodeState>(stateFile(stateDir, STATE_FILE), snapshotText(), log);
  const textOf = memoryText();
  const manifests = saver<MemoryJson>(
    stateFile(stateDir, 'manifests.json'),
    (memory) => `{"origin":${JSON.stringify(origin)},"memory":${textOf(memory)}}`,
    log,
  );
  const digests = saver<Digests>(stateFile(stateDir, DIGESTS_FILE), (value) => JSON.stringify(value), log);
  const linkGroups = saver<LinkGroups>(
    stateFile(stateDir, 'link-groups.json'),
    (value) => JSON.stringify(value),
    log,
  );
  return {
    state: state.save,
    digests: digests.save,
    /** What the chains of the last run were, so that what still is that keeps its counters. */
    async readDigests(): Promise<Digests> {
      return (await digests.read((text) => JSON.parse(text) as Digests)) ?? {};
    },
    linkGroups: linkGroups.save,
    /** What the names of link groups in rules stood for. */
    async readLinkGroups(): Promise<LinkGroups> {
      return (await linkGroups.read((text) => JSON.parse(text) as LinkGroups)) ?? {};
    },
    manifests: manifests.save,
    async readState(): Promise<NodeState | null> {
      const found = await state.read(toNodeState);
      if (found !== null && found.node !== node) {
        log.warn('the last good state is of another node and is not used', { node, other: found.node });
        return null;
      }
      return found;
    },
    /** Only of the same directories: what another one held is no earlier version of what this one holds. */
    async readManifests(): Promise<unknown> {
      const found = await manifests.read(
        (text) => JSON.parse(text) as { origin?: string; memory?: unknown } | null,
      );
      return found?.origin === origin ? found.memory : null;
    },
    async flush(): Promise<void> {
      await Promise.all([state.flush(), manifests.flush(), digests.flush(), linkGroups.flush()]);
    },
  };
}

type Digests = Readonly<Record<string, string>>;

/** The digests that an agent of this state directory last saved; none where there are none, or they can't be read. */
export async function savedDigests(stateDir: string): Promise<Digests> {
  try {
    return JSON.parse((await stateFile(stateDir, DIGESTS_FILE).read()) ?? '{}') as Digests;
  } catch {
    return {};
  }
}

/** The addresses of the Node object that an agent of this state directory last knew; null where there was none, or it can't be read. */
export async function savedNodeAddresses(stateDir: string): Promise<readonly string[] | null> {
  try {
    const text = await stateFile(stateDir, STATE_FILE).read();
    const [first = ''] = text?.split('\n', 1) ?? [];
    const message = first === '' ? null : (JSON.parse(first) as Message);
    return message?.type === 'node' ? message.addresses : null;
  } catch {
    // Whoever needs the state itself says why it can't be read.
    return null;
  }
}

const STATE_FILE = 'node-state.jsonl';
const DIGESTS_FILE = 'digests.json';

/** What is in node-state.jsonl. */
export function toNodeState(text: string): NodeState {
  return receive(parseLines(text));
}

/** `toMemoryJson` as text; like snapshotText, an edit makes the text of what it changes. */
function memoryText(): (memory: MemoryJson) => string {
  const known = new WeakMap<object, string>();
  return ({ remembered, ...others }) => {
    const items = remembered.map(({ file, object }) => {
      const text = known.get(object) ?? JSON.stringify(object);
      known.set(object, text);
      return `{"file":${JSON.stringify(file)},"object":${text}}`;
    });
    return `{${JSON.stringify(others).slice(1, -1)},"remembered":[${items.join()}]}`;
  };
}

function* parseLines(text: string): Iterable<Message> {
  for (const line of text.split('\n')) if (line !== '') yield JSON.parse(line);
}

interface Saver<T> {
  save(value: T): void;
  read<R>(parse: (text: string) => R): Promise<R | null>;
  flush(): Promise<void>;
}

export function saver<T>(file: StateFile, toText: (value: T) => string, log: Log): Saver<T> {
  let waiting: T | null = null;
  let last: T | null = null;
  let written: string | null = null;
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();
  let lastWrite = Number.NEGATIVE_INFINITY;

  async function write(): Promise<void> {
    if (waiting === null) return;
    const value = waiting;
    waiting = null;
    last = null;
    lastWrite = performance.now();
    try {
      const text = toText(value);
      if (text !== written) await file.write(text);
      written = text;
      last = value;
    } catch (error) {
      log.error('cannot save what must survive a restart; enforcement goes on, trying again', {
        error: (error as Error).message,
      });
      waiting ??= value;
      timer ??= setTimeout(() => void flush(), WRITE_RETRY).unref();
    }
  }
  function flush(): Promise<void> {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    writing = writing.then(write);
    return writing;
  }
  return {
    save(value) {
      // Names that resolve to something else make no other state: making its text is spared.
      if (waiting === null && value === last) return;
      waiting = value;
      const wait = Math.max(0, lastWrite + WRITE_INTERVAL - performance.now());
      timer ??= setTimeout(() => void flush(), wait);
    },
    async read(parse) {
      try {
        const text = await file.read();
        return text === null ? null : parse(text);
      } catch (error) {
        log.error('cannot use what was saved; starting without it', { error: (error as Error).message });
        return null;
      }
    },
    flush,
  };
}
