export { duration, many, number, size } from '../core/format-quantity.ts';
