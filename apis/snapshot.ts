import { formatMembers } from '../lib/net/member-set.ts';
import type { NodeState } from './compiled.ts';
import { type Message, nodeMessage } from './wire.ts';

/**
 * Stage 3: a node's view as messages, each AddressSet and ServiceSet before the rules that name it.
 */
export function* snapshot(state: NodeState): Iterable<Message> {
  for (const { toMessage } of parts(state)) yield toMessage();
}

/**
 * The messages of one state after another as lines. What is the same JavaScript object as before
 * has its line already: an edit among 10,000 rules makes ten of them.
 */
export function snapshotText(): (state: NodeState) => string {
  const known = new WeakMap<object, string>();
  return (state) => {
    const lines: string[] = [];
    for (const { of, toMessage } of parts(state)) {
      let line = of === null ? undefined : known.get(of);
      if (line === undefined) {
        line = `${JSON.stringify(toMessage())}\n`;
        if (of !== null) known.set(of, line);
      }
      lines.push(line);
    }
    return lines.join('');
  };
}

/**
 * A message that is made when it is asked for, and the object that it says all of; null where it
 * says something of the whole state.
 */
interface Part {
  readonly of: object | null;
  readonly toMessage: () => Message;
}

function* parts(state: NodeState): Iterable<Part> {
  const { addressSets, serviceSets, rules } = state;
  yield { of: null, toMessage: () => nodeMessage(state) };
  for (const set of addressSets.values()) {
    const { id, description, dynamic, names, members } = set;
    const named = names.length === 0 ? {} : { names };
    const toMessage = (): Message => {
      return { type: 'addressSet', id, description, dynamic, ...named, members: formatMembers(members) };
    };
    yield { of: set, toMessage };
  }
  for (const set of serviceSets.values()) {
    const { id, description, members } = set;
    yield { of: set, toMessage: () => ({ type: 'serviceSet', id, description, members }) };
  }
  for (const rule of rules) yield { of: rule, toMessage: () => ({ type: 'rule', rule }) };
  const counts = { rules: rules.length, addressSets: addressSets.size };
  const { size } = serviceSets;
  yield {
    of: null,
    toMessage: () => ({ type: 'bookmark', ...counts, ...(size === 0 ? {} : { serviceSets: size }) }),
  };
}
