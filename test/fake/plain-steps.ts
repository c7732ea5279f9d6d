import { WEBHOOK_STEPS, type WebhookStep } from '../../controller/kubeapi/certificates/webhook-paths.ts';

/** Paths that anybody can guess (`/mutate`, `/validate`, `/use`), for tests of the answers. */
export function plainStep(path: string): WebhookStep | null {
  return WEBHOOK_STEPS.find((step) => path === `/${step}`) ?? null;
}
