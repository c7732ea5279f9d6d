import { createHash, hkdfSync, timingSafeEqual } from 'node:crypto';
import { asFields, asList, type FieldMap } from '../../../apis/schema/json-schema.ts';
import type { WallClock } from '../../../lib/process/clock.ts';
import { type Following, followObject } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';
import type { KubeApi } from '../kube-api.ts';
import { KubeError } from '../kube-error.ts';

/**
 * The configurations by which the API server calls the webhook. They hold the CA of its
 * certificate, and the paths that prove who asks; the names are those in deploy/.
 */
const CONFIGURATIONS = [
  { kind: 'MutatingWebhookConfiguration', plural: 'mutatingwebhookconfigurations', name: 'nodewall' },
  { kind: 'ValidatingWebhookConfiguration', plural: 'validatingwebhookconfigurations', name: 'nodewall' },
] as const;
const API_VERSION = 'admissionregistration.k8s.io/v1';

interface PublishResult {
  /** Paths of the changed objects. */
  readonly changed: readonly string[];
  /** Paths of the objects that don't exist: that part of deploy/ is not installed. */
  readonly absent: readonly string[];
}

interface Published {
  readonly paths: WebhookPaths;
  /** The CA certificates (PEM); null: a third party writes them. */
  readonly certificates: string | null;
}

/** A webhook's client configuration. */
interface ClientConfig {
  /** Base64; not a string: absent. */
  readonly caBundle: unknown;
  /** The step that its name says; null: it is not a webhook of nodewall. */
  readonly step: WebhookStep | null;
  /** Null: the webhook is at a Service. */
  readonly url: string | null;
  /** '' if it has none. */
  readonly path: string;
}

/** Those of a configuration, in its order. */
export function clientConfigs({ webhooks }: FieldMap): ClientConfig[] {
  return asList(webhooks).map((item) => {
    const webhook = asFields(item);
    const { caBundle, url, service } = asFields(webhook?.clientConfig) ?? {};
    const name = String(webhook?.name ?? '');
    const step = WEBHOOK_STEPS.find((one) => name.startsWith(`${one}.`)) ?? null;
    if (typeof url === 'string') return { caBundle, step, url, path: pathIn(url) };
    const path = asFields(service)?.path;
    return { caBundle, step, url: null, path: typeof path === 'string' ? path : '' };
  });
}

/**
 * Tells `paths` which ones the configurations have, and calls back at first and whenever one of the
 * configurations is created, deleted, or gets another caBundle or path: an `apply` of deploy/ may
 * reset both.
 */
export function followWebhooks(following: Following, paths: WebhookPaths, changed: () => void): Reflector[] {
  return CONFIGURATIONS.map((configuration) =>
    followObject({
      ...following,
      ...configuration,
      apiVersion: API_VERSION,
      read: clientConfigs,
      changed(configs) {
        const { kind } = configuration;
        paths.follow(
          kind,
          (configs ?? []).map(({ path }) => path),
        );
        changed();
      },
    }),
  );
}

/**
 * Writes the CA certificates, and the paths that are due, to the webhook configurations that hold
 * others. Throws a KubeError if the API server refuses.
 */
export async function publishToWebhooks(
  request: KubeApi,
  { certificates, paths }: Published,
): Promise<PublishResult> {
  const caBundle = certificates === null ? null : Buffer.from(certificates).toString('base64');
  const changed: string[] = [];
  const absent: string[] = [];
  for (const { plural, name } of CONFIGURATIONS) {
    const path = `/apis/${API_VERSION}/${plural}/${name}`;
    const object = await read(request, path);
    if (object === null) {
      absent.push(path);
      continue;
    }
    const body = clientConfigs(object).flatMap((config, index) => [
      ...caBundleChange(config, index, caBundle),
      ...pathChange(config, index, paths, caBundle !== null && config.caBundle !== caBundle),
    ]);
    if (body.length === 0) continue;
    // The indexes are valid for this version only: for another one the request fails, and is
    // repeated at the next check.
    const version = asFields(object.metadata)?.resourceVersion;
    const test = { op: 'test', path: '/metadata/resourceVersion', value: version };
    await request({ method: 'PATCH', path, body: [test, ...body] });
    changed.push(path);
  }
  return { changed, absent };
}

function caBundleChange(config: ClientConfig, index: number, value: string | null): object[] {
  if (value === null || config.caBundle === value) return [];
  return [{ op: 'add', path: `/webhooks/${index}/clientConfig/caBundle`, value }];
}

function pathChange(
  { step, url, path }: ClientConfig,
  index: number,
  paths: WebhookPaths,
  isNewAuthority: boolean,
): object[] {
  const value = step === null ? null : paths.replacement(step, path, isNewAuthority);
  if (value === null) return [];
  if (url === null) return [{ op: 'add', path: `/webhooks/${index}/clientConfig/service/path`, value }];
  if (!URL.canParse(url)) return [];
  const at = new URL(url);
  at.pathname = value;
  return [{ op: 'add', path: `/webhooks/${index}/clientConfig/url`, value: at.href }];
}

function pathIn(url: string): string {
  return URL.canParse(url) ? new URL(url).pathname : '';
}

async function read(request: KubeApi, path: string): Promise<FieldMap | null> {
  try {
    return await request<FieldMap>({ method: 'GET', path });
  } catch (error) {
    if (error instanceof KubeError && error.status === 404) return null;
    throw error;
  }
}

/** The questions to a webhook. */
export const WEBHOOK_STEPS = ['mutate', 'validate', 'use'] as const;
export type WebhookStep = (typeof WEBHOOK_STEPS)[number];

/**
 * How long a path is the one to write (milliseconds). The API server quotes the path to users when
 * it can't reach the webhook, so it has to age.
 */
const PERIOD = 3_600_000;
/**
 * How many periods ahead a path may stay: two controllers whose clocks differ must not write by
 * turns.
 */
const MOST_AHEAD = 24;
/** How long a path counts after it left the configurations (milliseconds): API servers may lag. */
const GRACE = 600_000;
/** The most former paths that count. */
const MOST_FORMER = 32;
/**
 * The API server allows only names of DNS between the slashes. The first number says when the path
 * is to be replaced, also to a controller that has another key.
 */
const PATH = /^\/(mutate|validate|use)\/(\d{1,9})-[0-9a-f]{64}$/;

interface KnownPath {
  readonly step: WebhookStep;
  readonly digest: Buffer;
  /** Milliseconds of the clock. */
  readonly until: number;
}

/**
 * The paths by which the API server proves to the webhook that it is the API server: 256 bits that
 * only the webhook configurations have besides the controllers. They follow from a key that all
 * controllers share and from the time, so every controller knows a path before the first request.
 * Beyond that, a path counts because a configuration has it: a controller whose key is older or
 * newer than another's answers too.
 */
export class WebhookPaths {
  readonly #clock: WallClock;
  #key: string | null = null;
  #derived: { readonly period: number; readonly paths: ReadonlyMap<string, KnownPath> } | null = null;
  /** By path; those in a configuration count without end. */
  readonly #followed = new Map<string, KnownPath>();
  readonly #configurations = new Map<string, readonly string[]>();

  constructor(clock: WallClock) {
    this.#clock = clock;
  }

  /** @param key the private key (PEM) that all controllers have */
  setKey(key: string): void {
    if (key === this.#key) return;
    this.#key = key;
    this.#derived = null;
  }

  /** Follows the paths that a configuration has now. */
  follow(configuration: string, paths: readonly string[]): void {
    this.#configurations.set(configuration, paths);
    const current = new Set([...this.#configurations.values()].flat());
    const now = this.#clock.now();
    for (const [path, known] of this.#followed) {
      const isFormer = known.until !== Number.POSITIVE_INFINITY;
      if (!current.has(path) && !isFormer) this.#followed.set(path, { ...known, until: now + GRACE });
      if (isFormer && known.until <= now) this.#followed.delete(path);
    }
    for (const path of current) {
      const step = stepIn(path);
      if (step === null) continue;
      this.#followed.delete(path);
      this.#followed.set(path, { step, digest: digestOf(path), until: Number.POSITIVE_INFINITY });
    }
    for (const path of this.#followed.keys()) {
      if (this.#followed.size <= MOST_FORMER + current.size) break;
      if (!current.has(path)) this.#followed.delete(path);
    }
  }

  /**
   * The path to write for this step in place of this one; null: it may stay. Null also while no key
   * is known.
   */
  replacement(step: WebhookStep, path: string, isNewAuthority: boolean): string | null {
    if (this.#key === null) return null;
    const now = this.#period();
    const [, ofStep, period] = PATH.exec(path) ?? [];
    const ahead = Number(period) - now;
    const isCurrent = ofStep === step && ahead >= 0 && ahead <= MOST_AHEAD;
    if (isCurrent && !isNewAuthority) return null;
    const wanted = pathOf(this.#key, step, now);
    return wanted === path ? null : wanted;
  }

  /**
   * The step of a request for this path; null: whoever sent it is not the API server. The time does
   * not depend on where the path differs.
   */
  stepOf(path: string): WebhookStep | null {
    const digest = digestOf(path);
    const now = this.#clock.now();
    let found: WebhookStep | null = null;
    for (const known of [...this.#ofKey().values(), ...this.#followed.values()])
      if (timingSafeEqual(known.digest, digest) && known.until > now) found = known.step;
    return found;
  }

  /** Those of now and of the next period, in which another controller's clock may be already. */
  #ofKey(): ReadonlyMap<string, KnownPath> {
    if (this.#key === null) return new Map();
    const period = this.#period();
    if (this.#derived?.period !== period) {
      const paths = new Map<string, KnownPath>();
      for (const step of WEBHOOK_STEPS)
        for (const one of [period, period + 1]) {
          const path = pathOf(this.#key, step, one);
          paths.set(path, { step, digest: digestOf(path), until: Number.POSITIVE_INFINITY });
        }
      this.#derived = { period, paths };
    }
    return this.#derived.paths;
  }

  #period(): number {
    return Math.floor(this.#clock.date().getTime() / PERIOD);
  }
}

/** Whether a path is one that a controller writes, for whichever step. */
export function isSecretPath(path: string): boolean {
  return PATH.test(path);
}

function stepIn(path: string): WebhookStep | null {
  const [, step] = PATH.exec(path) ?? [];
  return WEBHOOK_STEPS.find((one) => one === step) ?? null;
}

/** A path of its own for each step: who learns one may ask nothing else. */
function pathOf(key: string, step: WebhookStep, period: number): string {
  const secret = hkdfSync('sha256', key.trim(), '', `nodewall webhook path ${step} ${period}`, 32);
  return `/${step}/${period}-${Buffer.from(secret).toString('hex')}`;
}

function digestOf(path: string): Buffer {
  return createHash('sha256').update(path).digest();
}
