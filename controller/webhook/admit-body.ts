import { asFields } from '../../apis/schema/json-schema.ts';
import { claimedIdentity } from '../../apis/validate/metadata.ts';
import { type NameReference, readableReferences } from '../../apis/validate/references.ts';
import { printable } from '../../lib/sharing/safe-text.ts';
import type { AdmissionExtension } from '../extension/extension.ts';
import type { ObjectChange } from '../impact/object-mirror.ts';
import type { Deletion } from '../status/definition-keeper.ts';
import { type AdmissionStep, type AdmissionWorld, admit } from './admission.ts';
import {
  type Admission,
  type AdmissionRequest,
  formatReview,
  parseReview,
  type UseQuestion,
} from './review.ts';

/** The answer to one body, as small values: it passes from one process to another. */
export interface BodyAdmission {
  /** The AdmissionReview with the response, as JSON. */
  readonly text: string;
  /** Whether newer objects could change the result. */
  readonly isTransient: boolean;
  /** It is allowed, with a warning that something does not exist. */
  readonly isMissing: boolean;
  /** The Tiers and ClusterGroups that the object names; only if `isTransient`. */
  readonly names: readonly NameReference[];
  /** The text holds only if the user has this right; null: it holds. */
  readonly use: (UseQuestion & { readonly uid: string }) | null;
  /** The text holds only if no Guardrail is broken by this; null: it holds. */
  readonly change: PendingChange | null;
  /** The text holds only once those that use it have its definition; null: it holds. */
  readonly deletion: (Deletion & { readonly request: string }) | null;
}

/** A change, and what the answer has so far. */
export interface PendingChange extends ObjectChange {
  readonly uid: string;
  /** The name of who makes it; '': not readable. */
  readonly user: string;
  readonly warnings: readonly string[];
}

/** Beyond this many names nobody looks them up. */
export const MOST_NAMES = 64;

/** Characters of an object's name in the API server. */
const LONGEST_NAME = 253;

/** Null if the body is not an AdmissionReview of admission.k8s.io/v1. */
export function admitBody(
  body: Uint8Array,
  step: AdmissionStep,
  world: AdmissionWorld,
  extension?: AdmissionExtension,
): BodyAdmission | null {
  const review = parseReview(parse(body));
  if (review === null) return null;
  const admission = withNames(admit(review, step, world, extension), review);
  const use = admission.use === undefined ? null : { ...admission.use, uid: review.uid };
  const { uid, user } = review;
  const pending = { uid, user: user?.username ?? '', warnings: admission.warnings };
  const change = admission.change === undefined ? null : { ...admission.change, ...pending };
  const deletion = admission.deletion === undefined ? null : { ...admission.deletion, request: uid };
  const text = JSON.stringify(formatReview(review, admission));
  const isMissing = admission.isMissing === true;
  const isTransient = isMissing || admission.rejection?.isTransient === true;
  const names = isTransient ? namesIn(asFields(review.object)) : null;
  // No object will ever have a name as long as that.
  if (names === null || names.some(({ name }) => name.length > LONGEST_NAME))
    return { text, isTransient: false, isMissing, names: [], use, change, deletion };
  return { text, isTransient, isMissing, names, use, change, deletion };
}

/**
 * Each warning with the object and the rule that it is about: one `kubectl apply` shows those of
 * many objects.
 */
function withNames(admission: Admission, { object, oldObject }: AdmissionRequest): Admission {
  const { kind, name } = claimedIdentity(object ?? oldObject);
  const spec = asFields(object?.spec);
  const warnings = admission.warnings.map((text) => {
    const [place = '', direction = '', index = ''] = /^spec\.(ingress|egress)\[(\d+)\]/.exec(text) ?? [];
    const rules = spec?.[direction];
    const rule = Array.isArray(rules) ? asFields(rules[Number(index)])?.name : undefined;
    const named = typeof rule === 'string' ? `${place} (${rule})${text.slice(place.length)}` : text;
    return printable(`${kind}/${name}: ${named}`);
  });
  return { ...admission, warnings };
}

/** One more than `MOST_NAMES` at the most, each once. */
function namesIn(object: ReturnType<typeof asFields>): NameReference[] {
  const names = new Map<string, NameReference>();
  for (const reference of readableReferences(String(object?.kind), object?.spec)) {
    if (!('name' in reference) || reference.to === 'interfaceGroup') continue;
    names.set(`${reference.to === 'Tier'} ${reference.name}`, reference);
    if (names.size > MOST_NAMES) break;
  }
  return [...names.values()];
}

/** The most lists and maps in one another; those of policies, with managedFields, are below 30. */
const MOST_DEPTH = 100;

/**
 * Undefined if it is not valid JSON, or nested so deeply that it is nobody's object: 8 MB of `[`
 * need half a gigabyte.
 */
function parse(body: Uint8Array): unknown {
  if (depthOf(body) > MOST_DEPTH) return undefined;
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    return undefined;
  }
}

/** How deep lists and maps are nested; stops beyond `MOST_DEPTH`. */
function depthOf(body: Uint8Array): number {
  let depth = 0;
  let deepest = 0;
  let isText = false;
  for (let at = 0; at < body.length && deepest <= MOST_DEPTH; at++) {
    const byte = body[at];
    if (byte === QUOTE) isText = !isText;
    else if (isText) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === BRACKET || byte === BRACE) deepest = Math.max(deepest, ++depth);
    else if (byte === BRACKET + 2 || byte === BRACE + 2) depth--;
  }
  return deepest;
}

const [QUOTE, BACKSLASH, BRACKET, BRACE] = [0x22, 0x5c, 0x5b, 0x7b];

/** One body. */
interface Reading {
  /** Counts a chunk that was read; false: there is no room for it. */
  add(chunk: Uint8Array): boolean;
  /** Frees the chunks: nothing may read them any more. */
  leave(): void;
}

/** A chunk of one byte needs about half of this. */
const LEAST_OF_CHUNK = 1024;

interface Body {
  readonly source: string;
  readonly refuse: () => void;
  readonly chunks: Uint8Array[];
  bytes: number;
}

/**
 * The memory for bodies of all sources. When it is full, the source that has most in it loses: its
 * body that asks for more, or else its largest. So a source with little always has room.
 */
export class BodyRoom {
  readonly #most: number;
  readonly #bodies = new Set<Body>();
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** @param refuse refuses the body and ends its request; called at most once. */
  enter(source: string, refuse: () => void): Reading {
    const body: Body = { source, refuse, chunks: [], bytes: 0 };
    this.#bodies.add(body);
    return {
      add: (chunk) => this.#add(body, chunk),
      leave: () => {
        this.#remove(body);
        free(body.chunks);
      },
    };
  }

  #add(body: Body, chunk: Uint8Array): boolean {
    body.chunks.push(chunk);
    if (!this.#bodies.has(body)) return false;
    const bytes = Math.max(chunk.length, LEAST_OF_CHUNK);
    body.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#most && this.#bodies.has(body)) {
      const loser = this.#loser(body);
      this.#remove(loser);
      loser.refuse();
    }
    return this.#bodies.has(body);
  }

  #remove(body: Body): void {
    if (this.#bodies.delete(body)) this.#bytes -= body.bytes;
  }

  #loser(asking: Body): Body {
    const sums = new Map<string, number>();
    for (const { source, bytes } of this.#bodies) sums.set(source, (sums.get(source) ?? 0) + bytes);
    const most = Math.max(...sums.values());
    if (sums.get(asking.source) === most) return asking;
    const candidates = [...this.#bodies].filter(({ source }) => sums.get(source) === most);
    return candidates.reduce((a, b) => (b.bytes > a.bytes ? b : a), asking);
  }
}

/**
 * Frees chunks at once. Left to the garbage collector, eight bodies of 8 MB make it go through the
 * whole heap (Node.js 24), which takes longer than to receive them.
 */
function free(chunks: readonly Uint8Array[]): void {
  for (const { buffer, length } of chunks)
    if (buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0);
}
