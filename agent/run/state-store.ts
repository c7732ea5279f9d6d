import type { NodeState } from '../../apis/compiled.ts';
import { snapshotText } from '../../apis/snapshot.ts';
import type { Message } from '../../apis/wire.ts';
import type { Log } from '../../lib/process/log.ts';
import { saver } from '../../lib/process/saver.ts';
import { stateFile } from '../../lib/process/state-file.ts';
import { receive } from '../receive/receive.ts';
import type { LinkGroups } from './link-groups.ts';

interface StoreOptions {
  readonly stateDir: string;
  readonly node: string;
  readonly log: Log;
}

export type StateStore = ReturnType<typeof stateStore>;

/**
 * The state that was enforced last, and what belongs to it, on disk. A disk that can't be read or
 * written is logged and never stops enforcement.
 */
export function stateStore({ stateDir, node, log }: StoreOptions) {
  const state = saver<NodeState>(stateFile(stateDir, STATE_FILE), snapshotText(), log);
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
    async readState(): Promise<NodeState | null> {
      const found = await state.read(toNodeState);
      if (found !== null && found.node !== node) {
        log.warn('the last good state is of another node and is not used', { node, other: found.node });
        return null;
      }
      return found;
    },
    async flush(): Promise<void> {
      await Promise.all([state.flush(), digests.flush(), linkGroups.flush()]);
    },
  };
}

type Digests = Readonly<Record<string, string>>;

/**
 * The digests that an agent of this state directory last saved; none where there are none, or they
 * can't be read.
 */
export async function savedDigests(stateDir: string): Promise<Digests> {
  try {
    return JSON.parse((await stateFile(stateDir, DIGESTS_FILE).read()) ?? '{}') as Digests;
  } catch {
    return {};
  }
}

/**
 * The addresses of the Node object that an agent of this state directory last knew; null where
 * there was none, or it can't be read.
 */
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

function* parseLines(text: string): Iterable<Message> {
  for (const line of text.split('\n')) if (line !== '') yield JSON.parse(line);
}
