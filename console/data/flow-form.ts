import type { Flow } from '../../apis/flow.ts';

/** Fields of the form, by the names of Flow's. */
const TEXTS = ['direction', 'traffic', 'src', 'dst', 'originalDst'] as const;
const NUMBERS = ['dstPort', 'srcPort', 'originalDstPort', 'icmpType', 'icmpCode', 'igmpType'] as const;
/** A name or a number. */
const EITHER = ['protocol', 'interfaceGroup'] as const;
export const FLOW_FIELDS = [...TEXTS, ...NUMBERS, ...EITHER];
export type FlowField = (typeof FLOW_FIELDS)[number];

export type FlowValues = Readonly<Partial<Record<FlowField, string>>>;

/**
 * The flow that is asked about; empty fields are left out. Values are not checked here: the node
 * does, and says what is wrong.
 */
export function flowOfForm(values: FlowValues): Flow {
  const flow: Partial<Record<FlowField, string | number>> = {};
  for (const field of FLOW_FIELDS) {
    const text = (values[field] ?? '').trim();
    if (text === '') continue;
    const isNumber = !TEXTS.some((name) => name === field) && /^\d+$/.test(text);
    flow[field] = isNumber ? Number(text) : text;
  }
  return flow as unknown as Flow;
}

/** The fields of a flow as JSON, of a link; what is not a flow's is left out. */
export function toFlowValues(json: string): FlowValues {
  let raw: unknown;
  try {
    raw = JSON.parse(json);
  } catch {
    return {};
  }
  const values: Partial<Record<FlowField, string>> = {};
  for (const field of FLOW_FIELDS) {
    const value: unknown = Object(raw)[field];
    if (typeof value === 'string' || typeof value === 'number') values[field] = String(value);
  }
  return values;
}
