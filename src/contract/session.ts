import { Type } from 'typebox';
import { GeneratedAt } from './export.ts';

/* Sessions of the catalogue page. */

export const SessionRequest = Type.Object(
  { one_time_key: Type.String({ minLength: 1, maxLength: 200 }) },
  { additionalProperties: false },
);

export const PageSessionResponse = Type.Object({
  /** Credential of the session, for the Authorization header. */
  credential: Type.String(),
  /** When the session ends, epoch milliseconds UTC. */
  expires_at: Type.Integer(),
  generated_at: GeneratedAt,
});
export type PageSessionResponse = Type.Static<typeof PageSessionResponse>;
