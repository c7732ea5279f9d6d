import { asFields, asList, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type Following, followObject } from '../../watch/cluster/follow-object.ts';
import type { Reflector } from '../../watch/cluster/reflector.ts';
import type { KubeApi } from '../kube-api.ts';
import { KubeError } from '../kube-error.ts';
import { WEBHOOK_STEPS, type WebhookPaths, type WebhookStep } from './webhook-paths.ts';

/**
 * The configurations by which the API server calls the webhook. They hold the CA of its
 * certificate, and the paths that prove who asks; the names are those in deploy/.
 */
const CONFIGURATIONS = [
  { kind: 'MutatingWebhookConfiguration', plural: 'mutatingwebhookconfigurations', name: 'nodewall' },
  { kind: 'ValidatingWebhookConfiguration', plural: 'validatingwebhookconfigurations', name: 'nodewall' },
] as const;
const API_VERSION = 'admissionregistration.k8s.io/v1';

export interface PublishResult {
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
export interface ClientConfig {
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
