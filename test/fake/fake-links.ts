/**
 * The links of one network namespace, as the kernel keeps them and tells of them. Strict: what
 * names a link that isn't there throws. Events wait until deliver() is called, so a test decides
 * how old they are. Like Linux 6.18, it tells nothing of
 * - the host's end when the other end of a veth moves to another namespace, or back;
 * - a group that is set on a link that is down.
 * And the end of a veth that is made from within the other namespace is told of before the two are
 * joined.
 */
import { type LinkGroupChange, NftError, type ReadLink, type RouteEvent } from 'nftables-napi';
import type { Links } from '../../agent/interfaces/group-reconciler.ts';

export interface FakeLinks extends Links {
  /** Delivers the oldest so many events; all by default. Returns how many there were. */
  deliver(count?: number): number;
  add(name: string, fields?: Partial<ReadLink>): number;
  /** Both ends here. */
  addPair(name: string, peer: string): readonly [number, number];
  /** One end in a pod: made here, or from within the pod's namespace. */
  addPodPair(name: string, from?: 'here' | 'there'): number;
  /** Moves one end of a pair away, into another namespace; the other is left here. */
  moveAway(index: number): void;
  /** Brings the other end of a pair here. */
  bringBack(index: number, name: string): number;
  remove(index: number): void;
  change(index: number, fields: Partial<Pick<ReadLink, 'name' | 'master' | 'isUp'>>): void;
  /** Somebody else sets a group. */
  setForeign(index: number, group: number): void;
  link(name: string): ReadLink;
  all(): ReadLink[];
  /** Who set the group of a link last; null while nobody did. */
  setter(index: number): 'us' | 'other' | null;
  /** Whether anything changed that no event tells. */
  isSilent(index: number): boolean;
  /** Makes the next calls of setGroups refuse everything. */
  refuse(code: string | null): void;
  /** Makes the next call of links reject. */
  failList(): void;
  overrun(): void;
  readonly calls: { readonly list: number; readonly get: number; readonly set: readonly LinkGroupChange[][] };
}

export function fakeLinks(tell: (events: readonly RouteEvent[]) => void): FakeLinks {
  const links = new Map<number, ReadLink>();
  const setters = new Map<number, 'us' | 'other'>();
  const silent = new Set<number>();
  const queue: RouteEvent[] = [];
  const calls = { list: 0, get: 0, set: [] as LinkGroupChange[][] };
  let next = 2;
  let refusal: string | null = null;
  let isListFailing = false;
  let namespaces = 0;

  const must = (index: number): ReadLink => {
    const link = links.get(index);
    if (link === undefined) throw new Error(`no link ${index}`);
    return link;
  };
  const say = (link: ReadLink): void =>
    void queue.push({ event: 'present', object: { kind: 'link', link: { ...link } } });
  const put = (link: ReadLink, isTold = true): void => {
    links.set(link.index, link);
    if (isTold) say(link);
  };

  function add(name: string, fields: Partial<ReadLink> = {}): number {
    if ([...links.values()].some((link) => link.name === name)) throw new Error(`${name} is there already`);
    const index = next++;
    put({ ...BARE, index, name, ...fields });
    return index;
  }
  function take(index: number): ReadLink {
    const link = must(index);
    links.delete(index);
    setters.delete(index);
    silent.delete(index);
    queue.push({ event: 'removed', object: { kind: 'link', link } });
    for (const port of [...links.values()]) if (port.master === index) put({ ...port, master: null });
    return link;
  }
  function setGroup(index: number, group: number, by: 'us' | 'other'): void {
    const link = { ...must(index), group };
    put(link, link.isUp);
    setters.set(index, by);
    if (by === 'other' && !link.isUp) silent.add(index);
  }

  add('lo', { isLoopback: true, isUp: true });
  return {
    calls,
    async links() {
      calls.list++;
      await turn();
      if (isListFailing) {
        isListFailing = false;
        throw refused('EINTR');
      }
      const found = [...links.values()];
      await turn();
      return found;
    },
    async linksAt(indices) {
      calls.get += indices.length;
      await turn();
      const found = indices.map((index) => links.get(index) ?? null);
      await turn();
      return found;
    },
    async setGroups(changes) {
      calls.set.push([...changes]);
      await turn();
      const answers = changes.map(({ index, group, from }) => {
        if (refusal !== null) return refused(refusal);
        if (!links.has(index)) return refused('ENODEV');
        if (from !== undefined && links.get(index)?.group !== from) return refused('ESTALE');
        setGroup(index, group, 'us');
        return null;
      });
      await turn();
      return answers;
    },
    deliver(count = queue.length) {
      const events = queue.splice(0, count);
      if (events.length > 0) tell(events);
      return events.length;
    },
    add,
    addPair(name, peer) {
      const one = next++;
      const two = add(peer, { kind: 'veth' });
      put({ ...BARE, index: one, name, kind: 'veth', peer: two });
      put({ ...must(two), peer: one }, false);
      return [one, two];
    },
    addPodPair(name, from = 'here') {
      const ends = { peer: 2, peerNamespace: namespaces++ };
      if (from === 'here') return add(name, { kind: 'veth', ...ends });
      const index = add(name, { kind: 'veth' });
      put({ ...must(index), ...ends }, false);
      return index;
    },
    moveAway(index) {
      const { peer } = take(index);
      if (peer !== null) put({ ...must(peer), peer: 2, peerNamespace: namespaces++ }, false);
    },
    bringBack(index, name) {
      const link = must(index);
      if (link.peerNamespace === null) throw new Error(`the other end of ${link.name} is here`);
      const back = add(name, { kind: 'veth', peer: index });
      put({ ...must(index), peer: back, peerNamespace: null }, false);
      return back;
    },
    remove(index) {
      const { kind, peer, peerNamespace } = take(index);
      if (kind === 'veth' && peer !== null && peerNamespace === null) take(peer);
    },
    change(index, fields) {
      put({ ...must(index), ...fields });
      if (must(index).isUp) silent.delete(index);
    },
    setForeign: (index, group) => setGroup(index, group, 'other'),
    link(name) {
      const found = [...links.values()].find((link) => link.name === name);
      if (found === undefined) throw new Error(`no link ${name}`);
      return found;
    },
    all: () => [...links.values()],
    setter: (index) => setters.get(index) ?? null,
    isSilent: (index) => silent.has(index),
    refuse(code) {
      refusal = code;
    },
    failList() {
      isListFailing = true;
    },
    overrun() {
      queue.splice(0);
      queue.push({ event: 'overrun' });
    },
  };
}

/** A link that is nothing in particular. */
export const BARE: Omit<ReadLink, 'index' | 'name'> = {
  kind: null,
  group: 0,
  master: null,
  peer: null,
  peerNamespace: null,
  isLoopback: false,
  isUp: false,
  hasQueue: false,
  mtu: 1500,
  mac: new Uint8Array(6),
  vxlan: null,
};

function refused(code: string): NftError {
  return new NftError([{ code, message: code, operation: null }]);
}

/** As a call of the thread pool, it ends in a later turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
