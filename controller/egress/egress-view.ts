import { EGRESS_SETS } from '../../apis/egress/entries.ts';
import {
  egressMessage,
  egressObjects,
  egressSize,
  emptyEgressObject,
  toWrittenEgress,
} from '../../apis/egress/messages.ts';
import type { NodeEgress } from '../../apis/egress/node-egress.ts';
import type { ExtensionObject, ViewExtension } from '../extension/extension.ts';
import { egressChanges } from './egress-changes.ts';

/** Egress gateways in stage 3. */
export const EGRESS_VIEW: ViewExtension = {
  *changes({ egress: before }, { egress: now }) {
    if (before === undefined || now === undefined || before === now) return [];
    return yield* egressChanges(before, now);
  },
  whole({ egress }, node) {
    const own = egress?.get(node);
    return own === undefined ? null : { first: egressMessage(own), objects: objectsOf(own) };
  },
  removed: { type: 'egressRemoved' },
  empty: emptyEgressObject,
  count({ egress }, node) {
    const own = egress?.get(node);
    return own === undefined ? {} : { egress: egressSize(own) };
  },
  written: ({ egress }) => (egress === undefined ? {} : { egress: toWrittenEgress(egress) }),
};

function* objectsOf(egress: NodeEgress): Iterable<ExtensionObject> {
  for (const one of egressObjects(egress))
    yield { ...one, isShared: EGRESS_SETS.some((set) => set === one.id) };
}
