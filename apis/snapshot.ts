import type { NodeState } from './compiled.ts';
import { egressMessage, egressObjects, egressSize } from './egress/messages.ts';
import { addressSetMessage, type Message, nodeMessage, serviceSetMessage, toWrittenRule } from './wire.ts';

/**
 * Stage 3: a node's view as messages. Each AddressSet and ServiceSet comes before the rules that
 * name it.
 */
export function* snapshot(state: NodeState): Iterable<Message> {
  for (const { toMessage } of parts(state)) yield toMessage();
}

/**
 * Returns a function that formats the messages of successive states as lines. Lines are cached by
 * JavaScript object, so that after an edit only what it changed is formatted, also among 10,000
 * rules.
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
 * A message that is made on demand, and the object that it contains whole; null if it describes the
 * state as a whole.
 */
interface Part {
  readonly of: object | null;
  readonly toMessage: () => Message;
}

function* parts(state: NodeState): Iterable<Part> {
  const { addressSets, serviceSets, rules, egress } = state;
  yield { of: null, toMessage: () => nodeMessage(state) };
  for (const set of addressSets.values()) yield { of: set, toMessage: () => addressSetMessage(set) };
  for (const set of serviceSets.values()) yield { of: set, toMessage: () => serviceSetMessage(set) };
  for (const rule of rules)
    yield { of: rule, toMessage: () => ({ type: 'rule', rule: toWrittenRule(rule) }) };
  if (egress !== undefined) {
    yield { of: null, toMessage: () => egressMessage(egress) };
    yield* egressObjects(egress);
  }
  const counts = {
    rules: rules.length,
    addressSets: addressSets.size,
    ...(egress === undefined ? {} : { egress: egressSize(egress) }),
  };
  const { size } = serviceSets;
  yield {
    of: null,
    toMessage: () => ({ type: 'bookmark', ...counts, ...(size === 0 ? {} : { serviceSets: size }) }),
  };
}
