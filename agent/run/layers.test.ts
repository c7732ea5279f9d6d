import assert from 'node:assert/strict';
import { emptyNodeState, type NodeState } from '../../apis/compiled.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { type Envelope, envelopeOf } from '../apply/envelope.ts';
import { type Layer, Layers, type PassOn } from './layers.ts';

describe('the layers between the source and the kernel', () => {
  let heard: string[];

  /** Adds its name to the node's. */
  function naming(name: string, next: PassOn): Layer {
    const over = (state: NodeState): NodeState => ({ ...state, node: `${state.node} ${name}` });
    return {
      submit: (envelope) => next({ ...envelope, resolved: over(envelope.resolved) }),
      over,
      enforced: ({ plain }) => void heard.push(`${name} enforced ${plain.node}`),
      lost: () => void heard.push(`${name} lost`),
      idle: async () => void heard.push(`${name} idle`),
    };
  }

  it('get an envelope in order, and then what is in force of it, and change no other form', async () => {
    heard = [];
    const kernel: Envelope[] = [];
    const layers = new Layers();
    layers.put({ submit: (envelope) => void kernel.push(envelope) });
    layers.put(naming('second', layers.next));
    layers.put(naming('first', layers.next));
    const state = emptyNodeState('node');
    const envelope = envelopeOf(state);
    layers.next(envelope);
    const [last = assert.fail()] = kernel;
    assert.equal(last.resolved.node, 'node first second');
    assert.deepEqual(last, { ...envelope, resolved: last.resolved });
    assert.equal(envelope.resolved, state);
    assert.deepEqual(layers.resolve(state), last.resolved);
    layers.enforced({ ...last, envelope: last } as Envelope & Enforced);
    layers.lost();
    await layers.idle();
    const expected = ['enforced node', 'lost', 'idle'].flatMap((said) => [`first ${said}`, `second ${said}`]);
    assert.deepEqual(heard, expected);
  });
});
