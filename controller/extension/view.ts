import { EGRESS_VIEW } from '../egress/egress-view.ts';
import type { ViewExtension } from './extension.ts';

/** Fills the port of stage 3. */
export const VIEW_EXTENSION: ViewExtension = EGRESS_VIEW;
