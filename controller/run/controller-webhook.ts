import { believesAnyServer } from '../../apis/config.ts';
import { withApiServer } from '../../apis/exemptions.ts';
import { type EndpointSlice, NO_OBJECTS } from '../../apis/objects.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import { memo } from '../../lib/sharing/memo.ts';
import type { WebhookPaths } from '../kubeapi/certificates/webhook-paths.ts';
import { reviewAccess } from '../kubeapi/reviews.ts';
import { accessAuthoriser } from '../publish/auth.ts';
import type { DefinitionKeeper } from '../status/definition-keeper.ts';
import type { ClusterSource } from '../watch/cluster/cluster-source.ts';
import type { Snapshot } from '../watch/source.ts';
import type { Changes } from '../webhook/changes.ts';
import { masquerader } from '../webhook/hidden-pods.ts';
import { latestWorld } from '../webhook/latest.ts';
import { KEEP_REFUSED_USE, USE_QUEUE, useRight } from '../webhook/use-right.ts';
import type { ApiClients } from './api-clients.ts';
import type { Compiling } from './compiling.ts';
import { type ControllerContext, hasEgress } from './controller-context.ts';
import type { GuardrailWatch } from './guardrail-watch.ts';
import { WebhookService } from './webhook-service.ts';

interface ControllerWebhookOptions {
  readonly context: ControllerContext;
  readonly api: Pick<ApiClients, 'general' | 'reviews'>;
  readonly compiling: Pick<Compiling, 'snapshot'>;
  readonly impact: GuardrailWatch['change'];
  readonly worlds: Pick<Changes, 'wait'>;
  readonly source: Pick<ClusterSource, 'isCurrent' | 'flush'>;
  readonly keep: DefinitionKeeper['keep'];
  /** By which the API server proves itself. */
  readonly paths: Pick<WebhookPaths, 'stepOf'>;
  readonly now: () => number;
}

const NOTHING: ReadonlySet<string> = new Set();
const NONE: NonNullable<Snapshot['waiting']> = [];

/** The webhook of a controller: it judges changes by the objects that are compiled now. */
export function controllerWebhook(options: ControllerWebhookOptions): WebhookService {
  const { context, api, compiling, impact, worlds, source, keep, paths, now } = options;
  const { config, log } = context;
  const failsafe = memo((slices: readonly EndpointSlice[]) => withApiServer(config.failsafe, slices));
  const waitingGroups = memo((waiting: typeof NONE) => {
    return new Set(waiting.filter(({ kind }) => kind === 'ClusterGroup').map(identityOf));
  });
  const maskedBy = memo((objects: Snapshot['objects']) => masquerader(objects, config.masquerade));
  return new WebhookService({
    stepOf: (path) => paths.stepOf(path),
    world: () => ({
      objects: compiling.snapshot?.objects ?? null,
      masquerader: maskedBy(compiling.snapshot?.objects ?? NO_OBJECTS),
      waiting: waitingGroups(compiling.snapshot?.waiting ?? NONE),
      gone: compiling.snapshot?.definitions?.gone ?? NOTHING,
      failsafe: failsafe(compiling.snapshot?.objects.endpointSlices ?? []),
      believesAnyServer: believesAnyServer(config.names),
      interfaceGroups: Object.keys(config.interfaceGroups),
      ...(hasEgress(context) ? { egress: config.egress } : {}),
    }),
    impact,
    mayUse: useRight({
      authorise: accessAuthoriser(
        (spec) => reviewAccess(api.reviews.request, spec),
        now,
        new FairQueue(USE_QUEUE),
        KEEP_REFUSED_USE,
      ),
    }),
    changed: worlds.wait,
    deletions: {
      async fresh() {
        await source.flush();
        return source.isCurrent();
      },
      keep,
    },
    latest: latestWorld({ request: api.general.request, isCurrent: () => source.isCurrent() }),
    onFailure: ({ message: error }) =>
      void log.error('internal error in a review', { stage: 'webhook', error }),
  });
}
