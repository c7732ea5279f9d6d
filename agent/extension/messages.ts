import { EGRESS_MESSAGES } from '../egress/receive/egress-draft.ts';
import type { MessageExtension } from './extension.ts';

/** Fills the port of stage 4. */
export const MESSAGE_EXTENSION: MessageExtension = EGRESS_MESSAGES;
