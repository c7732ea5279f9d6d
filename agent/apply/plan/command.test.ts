import assert from 'node:assert/strict';
import {
  BATCH_ELEMENTS,
  type Command,
  type ElementsCommand,
  elementCount,
  inOrder,
  toBatches,
  toParts,
} from './command.ts';

function elements(kind: ElementsCommand['kind'], set: string, count: number): ElementsCommand {
  const keys = Uint8Array.from({ length: 4 * count }, (_, i) => (i >> (2 + 8 * (3 - (i % 4)))) & 255);
  return { kind, set, keyLength: 4, interval: false, keys };
}

const RULES: Command = { kind: 'flushChain', name: 'a' };

function shape(commands: readonly Command[], cut = toBatches): string[][] {
  return cut(commands).map((batch) =>
    batch.map((one) => ('keys' in one ? `${one.kind[0]} ${one.set} ${elementCount(one)}` : one.kind)),
  );
}

describe('batches', () => {
  it('are none for no commands, one for few commands', () => {
    assert.deepEqual(toBatches([]), []);
    const commands = [RULES, elements('addElements', 's', 10)];
    assert.equal(toBatches(commands)[0], commands);
  });

  it('hold a limited number of elements of a set; additions follow, deletions precede', () => {
    const more = elements('addElements', 's', 2 * BATCH_ELEMENTS + 1);
    const less = elements('deleteElements', 'd', BATCH_ELEMENTS + 2);
    assert.deepEqual(shape([more, elements('addElements', 't', 9000), RULES, less]), [
      ['d d 2'],
      ['a s 8192', 'a t 8192', 'flushChain', 'd d 8192'],
      ['a s 8192', 'a t 808'],
      ['a s 1'],
    ]);
  });

  it('in order: no later command is in an earlier batch', () => {
    const keys = elements('deleteElements', 'keys', 2 * BATCH_ELEMENTS);
    const members = elements('deleteElements', 'members', BATCH_ELEMENTS + 1);
    assert.deepEqual(shape([keys, members], inOrder), [
      ['d keys 8192'],
      ['d keys 8192'],
      ['d members 8192'],
      ['d members 1'],
    ]);
    const few = [elements('deleteElements', 'keys', 2), elements('deleteElements', 'members', 3)];
    assert.deepEqual(shape(few, inOrder), [['d keys 2', 'd members 3']]);
    const replaced = [elements('deleteElements', 'r', 8000), elements('addElements', 'r', 8000)];
    assert.deepEqual(shape(replaced, inOrder), [['d r 8000', 'a r 8000']]);
    assert.deepEqual(inOrder([]), []);
  });

  it('in parts: sets with their elements, few enough of them, then rules', () => {
    const set = (name: string): Command => ({
      kind: 'addSet',
      set: {
        name,
        family: 4,
        key: 'address',
        interval: false,
        members: { singles: new Uint8Array(), prefixes: [] },
        comment: null,
      },
    });
    const chain: Command = {
      kind: 'addChain',
      chain: { name: 'c', base: null, fixed: true, rules: [], source: null, ruleId: null },
    };
    const commands = ['a', 'b', 'c'].flatMap((name) => [set(name), elements('addElements', name, 5000)]);
    assert.deepEqual(shape([...commands, chain], toParts), [
      ['addSet', 'a a 5000', 'addSet', 'a b 5000'],
      ['addSet', 'a c 5000', 'addChain'],
    ]);
    const chains = Array.from({ length: 5000 }, () => chain);
    assert.deepEqual(
      toParts(chains).map(({ length }) => length),
      [2048, 2048, 904],
    );
  });

  it('lose no element, and keep verdicts with their keys', () => {
    const count = 20_000;
    const targets = Uint32Array.from({ length: count }, (_, i) => i % 7);
    const command = { ...elements('addElements', 'm', count), targets };
    const parts = toBatches([command]).flat() as ElementsCommand[];
    assert.deepEqual(Buffer.concat(parts.map(({ keys }) => keys)), Buffer.from(command.keys));
    assert.deepEqual(
      parts.flatMap((part) => [...(part.targets ?? [])]),
      [...targets],
    );
  });

  it('never split a replacement', () => {
    const large = elements('addElements', 's', 10_000);
    assert.equal(shape([elements('flushElements', 's', 0), large]).length, 1);
    assert.equal(shape([elements('deleteElements', 's', 1), large]).length, 1);
    assert.equal(shape([elements('deleteElements', 't', 1), large]).length, 2);
  });
});
